package ptx

import (
	"fmt"
	"maps"
	"slices"

	"parley/internal/ptx/syntax"
)

// Parse reads a PTX file and decodes all of its kernels. An error names the
// line, and the instruction or the modifier that is unknown.
func Parse(source string) (*Module, error) {
	file, err := syntax.Parse(source)
	if err != nil {
		return nil, err
	}
	m := &Module{functions: file.Functions, variables: map[string]*syntax.Variable{}, kernels: map[string]*Kernel{}}
	for i := range file.Variables {
		m.variables[file.Variables[i].Name] = &file.Variables[i]
	}
	for _, f := range file.Order {
		if !f.Defined {
			continue
		}
		k, err := compile(m, f)
		if err != nil {
			return nil, err
		}
		if f.Entry {
			m.kernels[f.Name] = k
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
