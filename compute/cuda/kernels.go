package cuda

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"unsafe"

	"parley/compute"
	"parley/compute/libcuda"
	"parley/model/weights"
)

// earlyKernel returns one that waits itself for what the kernel before it writes.
func earlyKernel(name string, threads, shared int) libcuda.Kernel {
	return libcuda.Kernel{Name: name, Threads: threads, Shared: shared, Early: true}
}

// matrixTiles are how the 16-bit kernels are cut: strips of outputs, rows,
// threads and stages, as in kernels/linear_bf16.cu.
var matrixTiles = []struct{ strips, rows, threads, stages int }{
	{2, 8, 64, 12}, {2, 16, 64, 12}, {4, 32, 128, 6}, {4, 64, 128, 6}, {8, 128, 256, 4},
}

// A layout is how a type of weights lies in device memory; see kernels/weights.cuh.
type layout struct {
	name        string // in the names of kernels
	record      int    // columns in a record
	rows        int    // rows of a record
	bytes       int    // of a record
	few, many   int    // stages of the quantized kernels
	arrangement string // the kernel that brings stored rows into this layout
}

var layouts = map[weights.DType]*layout{
	weights.F16:  {"f16", 64, 64, 8192, 0, 0, "arrange16"},
	weights.BF16: {"bf16", 64, 64, 8192, 0, 0, "arrange16"},
	// With the scales of its rows behind it; see kernels/eight90.cuh.
	weights.F8E4M3: {"f8", 128, 64, 8192 + 64*4, 0, 0, "arrange_f8"},

	weights.Q8_0: {"q8_0", 64, 16, 1088, 12, 6, "arrange_q8_0"},
	weights.Q4_0: {"q4_0", 64, 16, 576, 12, 6, "arrange_q4_0"},
	weights.Q4_1: {"q4_1", 64, 16, 640, 12, 6, "arrange_q4_1"},
	weights.Q5_0: {"q5_0", 64, 16, 704, 12, 6, "arrange_q5_0"},
	weights.Q5_1: {"q5_1", 64, 16, 768, 12, 6, "arrange_q5_1"},
	weights.Q4_K: {"q4_k", 256, 16, 2304, 6, 3, "arrange_q4_k"},
	weights.Q5_K: {"q5_k", 256, 16, 2816, 6, 3, "arrange_q5_k"},
	weights.Q6_K: {"q6_k", 256, 16, 3360, 6, 3, "arrange_q6_k"},
}

// quantized reports whether matrices of the type meet activations of 8 bits in groups of 32.
func quantized(t weights.DType) bool {
	return t != weights.F16 && t != weights.BF16 && t != weights.F32 && t != weights.F8E4M3
}

// eightBytes is what 128 columns of 8 rows of E4M3 numbers take, with their scales.
const eightBytes = 8 * (128 + 4)

// eightTiles are how the kernels for E4M3 matrices are cut: warpgroups of 64 outputs, rows, stages, as in
// kernels/linear_f8_90a.cu.
var eightTiles = []struct{ groups, rows, stages int }{
	{1, 8, 10}, {1, 16, 9}, {1, 32, 8}, {1, 64, 6}, {2, 128, 6},
}

// eightShapes lists the kernels that multiply with E4M3 matrices.
func eightShapes() (all []matrixKernel) {
	for _, s := range eightTiles {
		stage := s.groups*layouts[weights.F8E4M3].bytes + s.rows/8*eightBytes
		threads := 160
		if s.groups == 2 {
			threads = 384
		}
		shape := earlyKernel(fmt.Sprintf("linear_f8_%d_%d", s.rows, s.groups), threads, s.stages*stage)
		all = append(all, matrixKernel{
			kernel:   kernel{Kernel: shape},
			outputs:  64 * s.groups,
			rows:     s.rows,
			resident: max(1, 3-s.groups),
			stage:    stage,
		})
	}
	return all
}

// unitBytes is what 64 columns of 8 rows take that are quantized to 8 bits.
const unitBytes = 640

// sharedQ is the shared memory of a quantized kernel: stages of records and
// of the rows that they meet, with their scales and sums.
func (l *layout) sharedQ(strips, tiles, stages int) int {
	return stages * (strips*l.bytes + tiles*l.record/64*unitBytes)
}

// A hopperTile is how a kernel for Hopper is cut: strips of outputs and rows of a
// block of threads, stages of the ring and records in a stage, as in
// kernels/linear_bf16_90a.cu.
type hopperTile struct{ strips, rows, stages, records int }

// hopperShapes lists the kernels for Hopper that multiply with a type.
func hopperShapes(t weights.DType) []matrixKernel {
	if t == weights.F8E4M3 {
		return eightShapes()
	}
	if !quantized(t) {
		tiles := []hopperTile{{1, 8, 3, 8}, {2, 8, 4, 4}, {4, 8, 3, 4}, {2, 16, 3, 4}, {4, 16, 5, 2}, {2, 32, 5, 2},
			{4, 32, 4, 2}, {2, 64, 4, 2}, {4, 64, 3, 2}, {8, 64, 8, 1}, {8, 128, 6, 1}, {8, 256, 4, 1}}
		if t == weights.BF16 {
			tiles = append(tiles, hopperTile{8, 96, 7, 1})
		}
		all := hopperShapes16("linear_"+layouts[t].name, 1, tiles, 0.2)
		if t == weights.BF16 {
			all = append(all, turnedShapes("linear_bf16", 1, turnedTiles, 0.2)...)
		}
		return all
	}
	l := layouts[t]
	few := []quantTile{{"8", 1, 1, 8, 4, 3, 4}, {"8_tall", 2, 1, 8, 1, 5, 4}, {"32", 2, 1, 32, 4, 3, 2},
		{"32_tall", 4, 1, 32, 4, 3, 2}, {"64", 2, 2, 64, 4, 3, 2}, {"64_three", 3, 1, 64, 4, 3, 2},
		{"64_seven", 7, 1, 64, 1, 4, 2}}
	if l.record == 256 {
		few = []quantTile{{"8", 1, 1, 8, 4, 4, 1}, {"8_tall", 2, 1, 8, 4, 3, 1}, {"32", 2, 1, 32, 4, 3, 1},
			{"32_tall", 4, 1, 32, 4, 2, 1}, {"64", 2, 2, 64, 4, 2, 1}, {"64_seven", 7, 1, 64, 1, 3, 1}}
	}
	var all []matrixKernel
	for _, s := range few {
		threads := s.strips*s.shares*s.parts*32 + 32
		shared := l.sharedQ(s.strips, s.rows/8, s.stages*s.parts*s.records)
		shape := earlyKernel(fmt.Sprintf("linear_%s_%s", l.name, s.name), threads, shared)
		k := matrixKernel{kernel: kernel{Kernel: shape}, outputs: 16 * s.strips, rows: s.rows}
		if s.rows == 64 {
			k.stage = l.sharedQ(s.strips, s.rows/8, 1)
		}
		all = append(all, k)
	}
	return all
}

// A quantTile is how a kernel for quantized weights on Hopper is cut: strips of outputs
// and rows of a block of threads, warps that share the rows of a strip and its columns,
// stages of the ring and records of each part in a stage, as in kernels/quant90.cuh.
type quantTile struct {
	name                                         string
	strips, shares, rows, parts, stages, records int
}

// pairTiles are how the kernels are cut that multiply with two BF16 matrices and unite the results.
var pairTiles = []hopperTile{{1, 8, 3, 4}, {2, 8, 4, 2}, {4, 8, 3, 2}, {2, 16, 4, 2}, {4, 16, 3, 2}, {2, 32, 3, 2},
	{4, 32, 5, 1}, {2, 64, 6, 1}, {4, 64, 4, 1}, {8, 128, 4, 1}}

// A turnedTile is how a kernel with rows as the left side is cut: rows and outputs of a block of threads, and stages of
// the ring, as in kernels/linear_bf16_90a.cu.
type turnedTile struct{ rows, outputs, stages int }

var (
	turnedTiles = []turnedTile{{64, 32, 16}, {64, 64, 12}}
	turnedPairs = []turnedTile{{128, 112, 5}, {128, 136, 4}}
)

// turnedShapes lists the kernels with rows as the left side, each with the given number of BF16 matrices (sides) at
// once.
func turnedShapes(name string, sides int, tiles []turnedTile, busy float64) (all []matrixKernel) {
	for _, s := range tiles {
		stage := (sides*s.outputs + s.rows) * 128
		shape := earlyKernel(fmt.Sprintf("%s_%d_by_%d", name, s.rows, s.outputs), s.rows*2+128, s.stages*stage)
		all = append(all, matrixKernel{
			kernel:   kernel{Kernel: shape},
			outputs:  s.outputs,
			rows:     s.rows,
			turned:   true,
			resident: 1,
			stage:    stage,
			busy:     busy,
		})
	}
	return all
}

// hopperShapes16 lists kernels for 16-bit matrices, each with the given number of
// matrices (sides) at once. Those for more than 64 rows or 4 strips use warpgroups, and come last; busy is which
// share of the multiprocessors these must give work to.
func hopperShapes16(name string, sides int, tiles []hopperTile, busy float64) (all []matrixKernel) {
	for _, s := range tiles {
		threads, resident, stage, share := s.strips*32+32, 2, 0, 0.
		if s.rows > 64 || s.strips > 4 {
			share, threads = busy, s.strips*32+128
			stage = sides*s.strips*2048 + s.rows*128
		}
		switch {
		case s.strips > 4:
			resident = 1
		case s.strips == 1:
			resident = 3
		}
		shared := s.stages * s.records * (sides*s.strips*2048 + s.rows*128)
		shape := earlyKernel(fmt.Sprintf("%s_%d_%d", name, s.rows, s.strips), threads, shared)
		all = append(all, matrixKernel{
			kernel:   kernel{Kernel: shape},
			outputs:  16 * s.strips,
			rows:     s.rows,
			resident: resident,
			stage:    stage,
			busy:     share,
		})
	}
	return all
}

// matrixShapes lists the kernels that multiply with a type, for few rows first.
func matrixShapes(t weights.DType) []matrixKernel {
	l := layouts[t]
	var all []matrixKernel
	if quantized(t) {
		for _, s := range []struct{ strips, rows, stages int }{{2, 8, l.few}, {4, 32, l.many}, {4, 64, l.many}} {
			shape := libcuda.Kernel{
				Name:    fmt.Sprintf("linear_%s_%d", l.name, s.rows),
				Threads: s.strips * 32,
				Shared:  l.sharedQ(s.strips, s.rows/8, s.stages),
			}
			all = append(all, matrixKernel{kernel: kernel{Kernel: shape}, outputs: 16 * s.strips, rows: s.rows})
		}
		return all
	}
	for _, s := range matrixTiles {
		shape := libcuda.Kernel{
			Name:    fmt.Sprintf("linear_%s_%d", l.name, s.rows),
			Threads: s.threads,
			Shared:  s.stages * (s.strips*2048 + s.rows/8*1024),
		}
		all = append(all, matrixKernel{kernel: kernel{Kernel: shape}, outputs: 16 * s.strips, rows: s.rows})
	}
	return all
}

// The widths of heads for which there are kernels.
var headWidths = []int{64, 128, 256}

const (
	keysOfTile = 64  // positions in shared memory, as in kernels/attend.cuh
	partition  = 256 // positions with a softmax of their own
	queryRows  = 16  // of a warp, and of the kernel for few query rows
)

// An attendTile is how attention over heads of a width is cut: warps of the kernel
// for many query rows, and stages of the kernels for few, for many, for many
// with warpgroups, and for few with bulk copies of two tiles, of numbers and of codes (0: there is none), as in
// kernels/attend_128.cu.
type attendTile struct{ warps, few, many, groups, bulk, bulkCodes int }

var attendTiles = map[int]attendTile{64: {8, 6, 6, 12, 6, 12}, 128: {8, 4, 3, 10, 3, 6}, 256: {4, 2, 2, 0, 0, 0}}

// manyRows is how many query rows a block of threads of the kernel for many has.
func manyRows(dim int) int { return attendTiles[headWidth(dim)].warps * queryRows }

// headWidth is the least width of kernels for heads of dim.
func headWidth(dim int) int {
	for _, width := range headWidths {
		if dim <= width {
			return width
		}
	}
	return headWidths[len(headWidths)-1]
}

// attendShapes are the kernels for at most 8, for at most 16 and for many query rows of a sequence over heads of dim
// in a pool of the type; the first two with bulk copies if it lies as they need it.
func attendShapes(dim int, kind compute.KVType, hopper bool) []libcuda.Kernel {
	width := headWidth(dim)
	s, row, scales := attendTiles[width], width*2, 4*partition*2 // of keys and values of two partitions
	few := queryRows*(row+partition*2) + s.few*keysOfTile*row + scales
	many := s.warps*queryRows*row + s.many*keysOfTile*row + scales
	threads := s.warps * 32
	if hopper && s.groups > 0 {
		threads += 128 // that copy
		if kind.ScaleBytes() > 0 {
			threads += 128 // and convert
		}
		many = s.warps*queryRows*row + s.groups*keysOfTile*row + scales
	}
	narrow := libcuda.Kernel{Name: fmt.Sprintf("attend_few_%d", width), Threads: 256, Shared: few}
	wide := narrow
	if hopper && dim == width && s.bulk > 0 && kind != compute.KVF32 {
		name, ring := fmt.Sprintf("attend_bulk_%d", width), s.bulk*2*keysOfTile*row
		if kind.ScaleBytes() > 0 {
			name, ring = name+"_"+kind.String(), s.bulkCodes*2*keysOfTile*width
		}
		narrow = libcuda.Kernel{Name: name + "_8", Threads: 288, Shared: queryRows/2*(row+partition*2) + ring}
		wide = libcuda.Kernel{Name: name + "_16", Threads: 288, Shared: queryRows*(row+partition*2) + ring}
	}
	return []libcuda.Kernel{
		narrow,
		wide,
		{Name: fmt.Sprintf("attend_many_%d", width), Threads: threads, Shared: many},
	}
}

func (c *CUDA) loadBasics() error {
	b := &c.basics
	err := first(
		c.load("embed", &b.embed, "embed", 256, &b.widen, "widen", 256),
		c.load("basic", &b.norm, "norm", 256, &b.add, "add", 256, &b.pack16, "pack16", 256, &b.pack8, "pack8", 256,
			&b.packFP8, "pack_fp8", 256, &b.gateUp, "gate_up", 256, &b.linearF32, "linear_f32", 256,
			&b.route, "route", 32, &b.slots, "slots", 1024, &b.mix, "mix", 256),
		c.load("rope", &b.angles, "angles", 128, &b.ropeStore, "rope_store", 256, &b.combine, "combine", 128),
		c.load("choose", &b.choose, "choose", 1024, &b.copyWords, "copy_words", 256,
			&b.prepare, "prepare", 1024, &b.recall, "recall", 128),
	)
	b.angles.Early = false // it follows the copy of the step, which kernels after it read before they wait
	return err
}

// load loads a module and sets kernels: triples of where, name and threads.
func (c *CUDA) load(module string, triples ...any) error {
	var shapes []libcuda.Kernel
	for i := 0; i < len(triples); i += 3 {
		shapes = append(shapes, libcuda.Kernel{Name: triples[i+1].(string), Threads: triples[i+2].(int)})
	}
	loaded, err := c.loadShapes(module, shapes)
	for i, k := range loaded {
		*triples[3*i].(*kernel) = k
	}
	return err
}

// loadShapes compiles a module and returns its kernels of the given shapes.
func (c *CUDA) loadShapes(module string, shapes []libcuda.Kernel) ([]kernel, error) {
	var source []byte
	err := fs.ErrNotExist
	if c.hopper() {
		source, err = moduleSource(module + "_90a")
	}
	if err == nil {
		for i := range shapes {
			shapes[i].Early = true
		}
	} else if errors.Is(err, fs.ErrNotExist) {
		source, err = moduleSource(module)
	}
	if err != nil {
		return nil, err
	}
	functions, err := c.driver.Load(string(source), shapes)
	if err != nil {
		return nil, fmt.Errorf("cuda: compiling %s.ptx: %w", module, err)
	}
	var all []kernel
	for i, s := range shapes {
		all = append(all, kernel{s, functions[i]})
	}
	return all, nil
}

// loadMatrix makes sure that the kernels of a type of weights are loaded.
func (c *CUDA) loadMatrix(t weights.DType) error {
	if c.matrices[t] != nil || t == weights.F32 {
		return nil
	}
	if t == weights.F8E4M3 && !c.hopper() {
		return fmt.Errorf("cuda: %s does not compute with weights of type %s: compute capability 9.0 is needed, "+
			"this is %d.%d", c.device.Name, t, c.device.Major, c.device.Minor)
	}
	all := matrixShapes(t)
	pairs := 0
	if c.hopper() {
		all = hopperShapes(t)
		if t == weights.BF16 {
			united := slices.Concat(hopperShapes16("pair_bf16", 2, pairTiles, 0.75),
				turnedShapes("pair_bf16", 2, turnedPairs, 0.75))
			pairs = len(united)
			all = append(all, united...)
		}
	}
	var shapes []libcuda.Kernel
	for _, k := range all {
		shapes = append(shapes, k.Kernel)
	}
	loaded, err := c.loadShapes("linear_"+layouts[t].name, shapes)
	if err != nil {
		return err
	}
	for i := range all {
		all[i].kernel = loaded[i]
	}
	arrange, err := c.loadShapes("upload", []libcuda.Kernel{{Name: layouts[t].arrangement, Threads: 256}})
	if err != nil {
		return err
	}
	c.matrices[t], c.arrange[t] = all[:len(all)-pairs], arrange[0]
	c.pairs = append(c.pairs, all[len(all)-pairs:]...)
	return nil
}

// hopper reports whether the device has what the kernels for sm_90a use.
func (c *CUDA) hopper() bool { return c.device.Major == 9 && c.device.Minor == 0 }

// start launches a kernel with its arguments. After a failure nothing is started any more.
func start[T any](c *CUDA, k *kernel, x, y int, args *T) {
	if c.failed != nil || x == 0 || y == 0 {
		return
	}
	err := c.driver.Launch(k.function, [2]int{x, y}, &k.Kernel, unsafe.Pointer(args), int(unsafe.Sizeof(*args)))
	if err != nil {
		c.fail(fmt.Errorf("kernel %s: %w", k.Name, err))
	}
}
