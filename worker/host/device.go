package host

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"parley/compute/cuda"
	"parley/compute/libcuda"
)

// A Device is what models compute on. The zero value is the processor.
type Device struct {
	// GPU says that it is the NVIDIA GPU of that Index and Name, which had
	// FreeBytes of free memory when it was chosen.
	GPU       bool
	Index     int
	Name      string
	FreeBytes int64
	// Major and Minor are the compute capability of a GPU.
	Major, Minor int
}

// CheckF8 reports why a device cannot compute with weights that are rounded to FP8.
func (d Device) CheckF8() error {
	const needs = "--weights fp8 needs a GPU that computes with FP8 (compute capability 9.0, such as an H100 or H200)"
	switch {
	case !d.GPU:
		return errors.New(needs + ", and the models compute on the CPU: use --weights as-stored")
	case d.Major != 9 || d.Minor != 0:
		return fmt.Errorf(needs+", and %s has %d.%d: use --weights as-stored", d.Name, d.Major, d.Minor)
	}
	return nil
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
	d, err := gpuAt(index)
	if err != nil {
		return Device{}, err
	}
	free, err := cuda.FreeBytes(index)
	if err != nil {
		return Device{}, err
	}
	return Device{
		GPU:       true,
		Index:     index,
		Name:      d.Name,
		FreeBytes: free,
		Major:     d.Major,
		Minor:     d.Minor,
	}, nil
}

// gpuAt describes GPU index of this machine.
func gpuAt(index int) (libcuda.Device, error) {
	devices, err := cuda.Devices()
	if err != nil {
		return libcuda.Device{}, err
	}
	if index >= len(devices) {
		return libcuda.Device{}, fmt.Errorf("GPU %d not found: the last one is cuda:%d", index, len(devices)-1)
	}
	return devices[index], nil
}
