// Package kvwire moves the keys and values of blocks between Parley workers, both ends of
// it: a [Server] answers for the blocks of this process, a [Client] fetches those of
// another: "give me the blocks with these names".
//
// A fetch is a POST to [Path]. Its body is an [Ask]: the names of blocks that follow each
// other in one prompt, and the [Format] of the asking worker. Formats say everything that
// the bytes of a block depend on besides its name: weights, arithmetic, type and size. If
// they differ, the answer is an error that names the difference, before any block is read.
// Otherwise it is a stream of frames:
//
//	'B'  sum  payload   a block: the next one of the names that were asked for, or the next
//	                    512 KiB of one that is larger, or its rest. sum is 4 bytes, big-endian:
//	                    the CRC-32C of its name, the payload's offset in the block as 4 bytes,
//	                    big-endian, and the payload
//	'S'  sum            likewise, but the payload is in shared memory: it follows the one before
//	'L'  sum            likewise, and it is the last one in its buffer of shared memory
//	'E'  reason         the end: 1 byte, 0 if all blocks were sent, 1 if the next one is
//	                    not held any more
//
// A stream that ends without 'E' was cut off. Blocks come in the order of the prompt, so
// those that came are of use whatever happens to the others: what is missing is computed.
// No fault of the other side changes a token. A block whose sum is wrong ends the fetch.
//
// Blocks may still be computed when they are asked for. Then the body names the request that
// does, and each block comes as soon as it is computed, until the request has ended.
//
// # Flow and memory
//
// A fetch over TCP of 16 MiB or more comes in up to [StreamsMax] streams, because a connection is the work of
// one processor at either end, and because clouds bound the speed of each. Each stream has a connection and
// frames of its own and every n-th block, so that TCP bounds what is under way. The first stream is asked for with
// all names, the number of streams that the taking side wants and a random id of the fetch. The header
// Parley-Streams of its answer says how many there are: one if blocks go through shared memory. The others are
// asked for with their number and that id, while the first one runs.
//
// Each side holds at most two buffers of bufferBytes for each fetch, which its streams divide,
// and takes part in at most [Fetches] at once. Up to [Waits] more wait in the order in which
// they came, as long as their deadline lasts, and hold nothing yet; others are refused as busy.
// InFlight is the memory that is held now. Ending the context of either side ends the
// fetch.
//
// # Shared memory
//
// Between workers on one host, payloads of fetches of [ShareFrom] bytes or more go through shared memory on
// Linux; frames take the way that they always do. The taking side listens on a unix socket with a random name
// and says in its [Ask] where ([Rendezvous]). A giving side that can reach the socket shows the secret of the Ask
// there, which only it has read, so the rights to read blocks are those of the Ask, over TLS, too. It is handed a
// memory file. If it cannot reach the socket, because it is on another host or in another network
// namespace, payloads follow their frames.
//
// The file is sealed: neither side can change its size, since a process dies that touches memory beyond the end
// of a file. The giving side verifies that before it maps it. It reads blocks into one half of the memory while
// the taking side copies pieces out of the other, and sends a byte over the unix socket for each half that it is
// done with. The taking side verifies sums of its own copies, which the other side cannot change. The memory
// is in place of the giving side's buffers, and counted there.
//
// # Who may ask
//
// Names of blocks are secrets: they cannot be guessed without the tokens and the salt of
// the tenant. Nevertheless only members of the fleet are answered. A gateway that knows
// the key of a worker signs a ticket with it ([Sign]), which it gives to another worker
// with a request. The ticket is good for reading blocks of that one process for a few
// minutes, and does not reveal the key.
//
//	format.go  what two workers must have in common
//	ticket.go  the right to read blocks of one worker
//	stream.go  frames
//	cursor.go  how blocks are divided into frames
//	streams.go how a fetch is divided into streams
//	follow.go  blocks that are being computed
//	shared.go  payloads in memory that both sides share
//	transport.go  how the taking side connects
//	receiver.go  reading and verifying a stream
//	arrivals.go  pieces of a stream that have come and were not taken
//	merge.go   blocks of all streams, in order
//	batching.go  how much is read at once
//	gate.go    how many fetches run, and what they hold
//	server.go  the giving side
//	client.go  the taking side
package kvwire
