package host

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"parley/compute"
	"parley/compute/cpu"
	"parley/compute/cuda"
)

// A Device is what models compute on. The zero value is the processor.
type Device struct {
	// GPU says that it is the NVIDIA GPU of that Index and Name, which had
	// FreeBytes of free memory when it was chosen.
	GPU       bool
	Index     int
	Name      string
	FreeBytes int64
}

// The names of devices that [ChooseDevice] takes beside cuda:N.
const (
	DeviceAuto = "auto"
	DeviceCPU  = "cpu"
	DeviceCUDA = "cuda"
)

// ParseDevice checks the name of a device: auto, cpu, cuda or cuda:N. It
// returns the number of the GPU, 0 where none is named.
func ParseDevice(name string) (index int, err error) {
	number, numbered := strings.CutPrefix(name, DeviceCUDA+":")
	switch {
	case numbered:
		if index, err = strconv.Atoi(number); err == nil && index >= 0 {
			return index, nil
		}
	case name == DeviceAuto || name == DeviceCPU || name == DeviceCUDA || name == "":
		return 0, nil
	}
	return 0, fmt.Errorf("%q is not a device: use auto, cpu, cuda or cuda:N", name)
}

// ChooseDevice returns the device of that name. Auto, or nothing, is the first
// GPU if there is one that can be used; otherwise the processor, and why says
// what keeps the GPU from being used.
func ChooseDevice(name string) (d Device, why error, err error) {
	index, err := ParseDevice(name)
	if err != nil || name == DeviceCPU {
		return Device{}, nil, err
	}
	d, err = gpuDevice(index)
	if err != nil && (name == DeviceAuto || name == "") {
		return Device{}, err, nil
	}
	return d, nil, err
}

// GPUs returns the names of all NVIDIA GPUs of this machine, as [ChooseDevice] takes
// them, or why there are none.
func GPUs() (names []string, err error) {
	devices, err := cuda.Devices()
	for _, d := range devices {
		names = append(names, fmt.Sprintf("%s:%d", DeviceCUDA, d.Index))
	}
	return names, err
}

func gpuDevice(index int) (Device, error) {
	devices, err := cuda.Devices()
	if err != nil {
		return Device{}, err
	}
	if index >= len(devices) {
		return Device{}, fmt.Errorf("there is no GPU %d: the last one is cuda:%d", index, len(devices)-1)
	}
	free, err := cuda.FreeBytes(index)
	if err != nil {
		return Device{}, err
	}
	return Device{GPU: true, Index: index, Name: devices[index].Name, FreeBytes: free}, nil
}

// PlanDevice chooses what computes, by the first candidate's DeviceName, and
// divides its memory between the models. Unless a GPU was asked for by name, the
// processor serves where none can be used or the models do not fit, and the log
// says why. It returns the plans and the memory that was divided.
func PlanDevice(candidates []Candidate, log *slog.Logger) (plans []*Plan, available int64, err error) {
	name := ""
	if len(candidates) > 0 {
		name = candidates[0].Config.DeviceName
	}
	device, why, err := ChooseDevice(name)
	if err != nil {
		return nil, 0, err
	}
	if why != nil {
		log.Info("using the CPU", "because", why)
	}
	if device.GPU {
		plans, err = PlanMemory(onDevice(candidates, device), device.FreeBytes)
		if err == nil || strings.HasPrefix(name, DeviceCUDA) {
			return plans, device.FreeBytes, err
		}
		log.Warn("using the CPU: the models do not fit the GPU", "device", device.Name, "because", err)
	}
	if available, err = AvailableBytes(); err != nil {
		return nil, 0, err
	}
	plans, err = PlanMemory(candidates, available)
	return plans, available, err
}

func onDevice(candidates []Candidate, d Device) []Candidate {
	out := slices.Clone(candidates)
	for i := range out {
		out[i].Config.Device = d
	}
	return out
}

// newBackend opens what the plan's model computes on. A draft model shares the
// threads of the model that it guesses for.
func (p *Plan) newBackend(beside compute.Backend) (compute.Backend, error) {
	if d := p.cfg.Device; d.GPU {
		return cuda.Open(d.Index)
	}
	o := cpu.Options{Threads: p.cfg.Threads, Path: p.cfg.Path, Numerics: p.cfg.Numerics}
	o.Share, _ = beside.(*cpu.CPU)
	backend, err := cpu.New(o)
	if err == nil && p.cfg.wrap != nil {
		return p.cfg.wrap(backend), nil
	}
	return backend, err
}

// Err returns what keeps the device from computing, nil while it works. After
// a failure of a GPU nothing can be computed until the process starts again.
func (h *Host) Err() error {
	if d, ok := h.backend.(interface{ Err() error }); ok {
		return d.Err()
	}
	return nil
}
