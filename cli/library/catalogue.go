package library

import (
	"fmt"
	"io"
	"text/tabwriter"

	"parley/cli"
	"parley/model/store"
	"parley/worker/host"
)

// An Offer is a model of the catalogue, seen from this machine.
type Offer struct {
	store.Entry
	// Memory4K and Memory32K are about what it takes with a context of that many tokens.
	Memory4K  int64 `json:"memory_4k_bytes"`
	Memory32K int64 `json:"memory_32k_bytes"`
	// FitsContext is the longest context that fits this machine; 0 if the model does not.
	FitsContext int `json:"fits_context"`
}

const shortContext, longContext = 4 << 10, 32 << 10

// Offers lists the catalogue for a machine with that much memory.
func Offers(memory int64) (list []Offer) {
	for _, e := range store.Catalogue() {
		short, long := e.MemoryBytes(shortContext), e.MemoryBytes(longContext)
		list = append(list, Offer{e, short, long, e.ContextThatFits(memory)})
	}
	return list
}

// fits says in words whether a model fits.
func (o *Offer) fits() string {
	switch {
	case o.FitsContext < shortContext/2:
		return "no"
	case o.FitsContext < min(longContext, o.ContextTokens):
		return fmt.Sprintf("with %dK context", o.FitsContext>>10)
	}
	return "yes"
}

// deviceMemory returns how much memory models can have here, and what has it.
func deviceMemory() (bytes int64, where string, err error) {
	device, _, err := host.ChooseDevice(host.DeviceAuto)
	if err == nil && device.GPU {
		return device.FreeBytes, device.Name, nil
	}
	bytes, err = host.AvailableBytes()
	return bytes, "this machine", err
}

func printCatalogue(out io.Writer, asJSON bool) error {
	memory, where, err := deviceMemory()
	if err != nil {
		return err
	}
	list := Offers(memory)
	if asJSON {
		return cli.PrintJSON(out, list)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSIZE\tMEMORY 4K\tMEMORY 32K\tFITS\tLICENSE\tGOOD AT")
	for i := range list {
		o := &list[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", o.Name, host.Size(o.Bytes), host.Size(o.Memory4K),
			host.Size(o.Memory32K), o.fits(), o.License, o.GoodAt)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\nFITS is for the %s free on %s. Pull one: parley pull NAME\n", host.Size(memory), where)
	return err
}
