package zmq

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// A Role is the type of a socket.
type Role string

// The roles that are spoken here.
const (
	Pub    Role = "PUB"
	Sub    Role = "SUB"
	Dealer Role = "DEALER"
	Router Role = "ROUTER"
)

// partners are the roles that may talk to one another, as each says it.
var partners = map[Role]string{Pub: "SUB XSUB", Sub: "PUB XPUB", Dealer: "ROUTER DEALER REP",
	Router: "DEALER ROUTER REQ"}

// receiveMax bounds the bytes of one message, all frames together, by the role of the
// socket that receives it. Any host that can reach a publisher or a router can send to it,
// so what these accept is small; a subscriber and a dealer chose whom they connect to.
var receiveMax = map[Role]int{Pub: 1 + topicBytesMax, Router: 64, Sub: 64 << 20, Dealer: 64 << 20}

const (
	// topicBytesMax bounds the topic of a subscription.
	topicBytesMax   = 256
	framesMax       = 64
	commandBytesMax = 4 << 10
	handshakeTime   = 5 * time.Second
	writeTime       = 30 * time.Second
)

// Flags of a frame.
const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

// ErrProtocol is in the chain of errors about bytes that are not ZMTP.
var ErrProtocol = errors.New("not ZMTP 3 without encryption")

// A Conn is one connection, after both sides have greeted. One goroutine may
// receive while another sends.
type Conn struct {
	raw  net.Conn
	most int // bytes of a message that is received
	in   *bufio.Reader
	wmu  sync.Mutex
	out  *bufio.Writer
	room [9]byte
}

// Dial connects to an endpoint such as tcp://10.0.0.7:5557 in a role.
func Dial(ctx context.Context, endpoint string, as Role) (*Conn, error) {
	address, err := Address(endpoint)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: handshakeTime,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 5 * time.Second, Count: 3}}
	raw, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	c, err := Greet(raw, as)
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("%s: %w", endpoint, err)
	}
	return c, nil
}

// Address returns the host and port of an endpoint.
func Address(endpoint string) (string, error) {
	address, ok := strings.CutPrefix(endpoint, "tcp://")
	if _, _, err := net.SplitHostPort(address); !ok || err != nil {
		return "", fmt.Errorf("%q is not an endpoint: write it as tcp://host:port", endpoint)
	}
	return address, nil
}

// Greet makes a connection of a socket that is connected, in a role.
func Greet(raw net.Conn, as Role) (*Conn, error) {
	c := &Conn{raw: raw, most: receiveMax[as], in: bufio.NewReaderSize(raw, 64<<10),
		out: bufio.NewWriterSize(raw, 64<<10)}
	if err := raw.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return nil, err
	}
	if err := c.greet(as); err != nil {
		return nil, err
	}
	return c, raw.SetDeadline(time.Time{})
}

func (c *Conn) greet(as Role) error {
	var hello [64]byte
	hello[0], hello[9], hello[10] = 0xff, 0x7f, 3
	copy(hello[12:32], "NULL")
	c.out.Write(hello[:])
	c.writeFrame(readyCommand(as), flagCommand)
	if err := c.out.Flush(); err != nil {
		return err
	}
	var theirs [64]byte
	if _, err := io.ReadFull(c.in, theirs[:]); err != nil {
		return err
	}
	if theirs[0] != 0xff || theirs[9]&1 == 0 || theirs[10] < 3 ||
		strings.TrimRight(string(theirs[12:32]), "\x00") != "NULL" {
		return ErrProtocol
	}
	body, flags, err := c.readFrame(commandBytesMax)
	if err != nil {
		return err
	}
	if flags&flagCommand == 0 {
		return ErrProtocol
	}
	return checkReady(body, as)
}

func readyCommand(as Role) []byte {
	b := append([]byte{5}, "READY"...)
	b = appendProperty(b, "Socket-Type", string(as))
	if as == Dealer || as == Router {
		b = appendProperty(b, "Identity", "")
	}
	return b
}

func appendProperty(b []byte, name, value string) []byte {
	b = append(append(b, byte(len(name))), name...)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(value))), value...)
}

// checkReady reads the other side's READY and whether the two may talk.
func checkReady(body []byte, as Role) error {
	rest, ok := strings.CutPrefix(string(body), "\x05READY")
	if !ok {
		return fmt.Errorf("%w: no READY", ErrProtocol)
	}
	for len(rest) > 0 {
		n := int(rest[0])
		if len(rest) < 1+n+4 {
			return fmt.Errorf("%w: a property is cut", ErrProtocol)
		}
		name, size := rest[1:1+n], binary.BigEndian.Uint32([]byte(rest[1+n:]))
		rest = rest[1+n+4:]
		if uint64(size) > uint64(len(rest)) {
			return fmt.Errorf("%w: a property is cut", ErrProtocol)
		}
		value := rest[:size]
		rest = rest[size:]
		if strings.EqualFold(name, "Socket-Type") {
			if strings.Contains(" "+partners[as]+" ", " "+value+" ") {
				return nil
			}
			return fmt.Errorf("the peer is a %s socket, which cannot talk to a %s", value, as)
		}
	}
	return fmt.Errorf("%w: no type of socket", ErrProtocol)
}

// Close ends the connection; a Receive under way returns.
func (c *Conn) Close() error { return c.raw.Close() }

// Send writes a message and returns when the system has it.
func (c *Conn) Send(frames ...[]byte) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	c.write(frames)
	return c.flush()
}

// write puts a message into the buffer. Its reader must take it
// within a time.
func (c *Conn) write(frames [][]byte) {
	_ = c.raw.SetWriteDeadline(time.Now().Add(writeTime)) // fails with the write
	for i, f := range frames {
		flags := byte(flagMore)
		if i == len(frames)-1 {
			flags = 0
		}
		c.writeFrame(f, flags)
	}
}

func (c *Conn) flush() error { return c.out.Flush() }

// writeFrame writes into the buffer; an error shows when it is flushed.
func (c *Conn) writeFrame(body []byte, flags byte) {
	if len(body) < 256 {
		c.out.Write([]byte{flags, byte(len(body))})
	} else {
		head := binary.BigEndian.AppendUint64([]byte{flags | flagLong}, uint64(len(body)))
		c.out.Write(head)
	}
	c.out.Write(body)
}

// Receive returns the next message.
func (c *Conn) Receive() ([][]byte, error) {
	var frames [][]byte
	left := c.most
	for {
		body, flags, err := c.readFrame(left)
		if err != nil {
			return nil, err
		}
		if flags&flagCommand != 0 {
			if message := c.command(body); message != nil && len(frames) == 0 {
				return [][]byte{message}, nil
			}
			continue
		}
		frames = append(frames, body)
		left -= len(body)
		if flags&flagMore == 0 {
			return frames, nil
		}
		if len(frames) == framesMax {
			return nil, fmt.Errorf("%w: a message of more than %d frames", ErrProtocol, framesMax)
		}
	}
}

// command answers a ping. The subscriptions of ZMTP 3.1 are returned as the
// messages that they are in 3.0.
func (c *Conn) command(body []byte) (message []byte) {
	name := ""
	if len(body) > 0 && len(body) > int(body[0]) {
		name = string(body[1 : 1+body[0]])
	}
	switch name {
	case "PING":
		if context := body[1+len(name):]; len(context) >= 2 {
			c.wmu.Lock()
			defer c.wmu.Unlock()
			_ = c.raw.SetWriteDeadline(time.Now().Add(writeTime))
			c.writeFrame(append([]byte("\x04PONG"), context[2:]...), flagCommand)
			_ = c.flush() // a broken connection shows when it is read
		}
	case "SUBSCRIBE":
		return append([]byte{1}, body[1+len(name):]...)
	case "CANCEL":
		return append([]byte{0}, body[1+len(name):]...)
	}
	return nil
}

// readFrame reads a frame of at most most bytes. Memory is taken as they
// come and not as they are announced.
func (c *Conn) readFrame(most int) (body []byte, flags byte, err error) {
	if _, err := io.ReadFull(c.in, c.room[:2]); err != nil {
		return nil, 0, err
	}
	flags = c.room[0]
	size := uint64(c.room[1])
	if flags&flagLong != 0 {
		if _, err := io.ReadFull(c.in, c.room[2:9]); err != nil {
			return nil, 0, unexpected(err)
		}
		size = binary.BigEndian.Uint64(c.room[1:9])
	}
	if flags&^(flagMore|flagLong|flagCommand) != 0 ||
		flags&flagCommand != 0 && (flags&flagMore != 0 || size > commandBytesMax) {
		return nil, 0, fmt.Errorf("%w: flags %#x", ErrProtocol, flags)
	}
	if size > uint64(most) {
		return nil, 0, fmt.Errorf("%w: a message of more than %d bytes", ErrProtocol, c.most)
	}
	body, err = readBytes(c.in, int(size))
	return body, flags, err
}

// readBytes reads n bytes. What is large grows with what has come.
func readBytes(from io.Reader, n int) ([]byte, error) {
	const step = 1 << 20
	body := make([]byte, 0, min(n, step))
	for len(body) < n {
		at := len(body)
		body = append(body, make([]byte, min(n-at, max(step, at)))...)
		if _, err := io.ReadFull(from, body[at:]); err != nil {
			return nil, unexpected(err)
		}
	}
	return body, nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
