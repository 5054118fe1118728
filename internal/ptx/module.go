package ptx

import (
	"fmt"
	"maps"
	"slices"
)

// A Dim is a size or a position in three dimensions; a zero size counts as 1.
type Dim [3]int

func (d Dim) fill() Dim {
	for i := range d {
		d[i] = max(d[i], 1)
	}
	return d
}

func (d Dim) count() int { return d[0] * d[1] * d[2] }

// A Module is a parsed and decoded PTX file. It is immutable and may be used by
// several devices at once.
type Module struct {
	functions map[string]*function
	variables map[string]*variable
	kernels   map[string]*Kernel
}

// A Param is a kernel parameter's place in the parameter buffer.
type Param struct {
	Name   string
	Offset int
	Size   int
	Align  int
}

// A Kernel is an .entry function, ready to run.
type Kernel struct {
	Name        string
	Params      []Param
	ParamBytes  int // size of the parameter buffer
	SharedBytes int // static shared memory
	LocalBytes  int // local memory of one thread
	MaxThreads  Dim // .maxntid, zero when not given
	ReqThreads  Dim // .reqntid, zero when not given

	module    *Module
	code      []inst
	n32       int
	n64       int
	npred     int
	const32   map[uint32]slot
	const64   map[uint64]slot
	symbols   []relocation
	specials  []special
	staticEnd int  // first byte after static shared variables
	dynamic   int  // first byte of dynamic shared memory
	matrix    bool // it uses wgmma
}

// Parse reads a PTX file and decodes all of its kernels. An error names the
// line, and the instruction or the modifier that is unknown.
func Parse(source string) (*Module, error) {
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens, functions: map[string]*function{}}
	if err := p.module(); err != nil {
		return nil, err
	}
	m := &Module{functions: p.functions, variables: map[string]*variable{}, kernels: map[string]*Kernel{}}
	for i := range p.variables {
		m.variables[p.variables[i].name] = &p.variables[i]
	}
	for _, f := range p.order {
		if !f.defined {
			continue
		}
		k, err := compile(m, f)
		if err != nil {
			return nil, err
		}
		if f.entry {
			m.kernels[f.name] = k
		}
	}
	return m, nil
}

// Kernel returns the entry function of that name.
func (m *Module) Kernel(name string) (*Kernel, error) {
	if k := m.kernels[name]; k != nil {
		return k, nil
	}
	return nil, fmt.Errorf("ptx: no kernel %q; the module has %v", name, m.Kernels())
}

// Kernels returns the names of all entry functions, sorted.
func (m *Module) Kernels() []string { return slices.Sorted(maps.Keys(m.kernels)) }

// Pack lays arguments out as the kernel's parameter buffer. Each argument must
// have its parameter's size.
func (k *Kernel) Pack(args ...[]byte) ([]byte, error) {
	if len(args) != len(k.Params) {
		return nil, fmt.Errorf("ptx: kernel %s has %d parameters, not %d", k.Name, len(k.Params), len(args))
	}
	out := make([]byte, k.ParamBytes)
	for i, p := range k.Params {
		if len(args[i]) != p.Size {
			return nil, fmt.Errorf("ptx: parameter %d of kernel %s has %d bytes, not %d", i, k.Name, p.Size,
				len(args[i]))
		}
		copy(out[p.Offset:], args[i])
	}
	return out, nil
}
