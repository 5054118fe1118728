// Package int4 reads matrices of four-bit integers as AWQ, GPTQ and compressed-tensors store them in safetensors.
//
// An element is (code - zero) * scale. Scale and zero belong to one output, a row, and to a group of inputs, mostly 128
// of them. All three pack eight codes into a 32-bit integer, the first one in its lowest bits, and differ in the rest.
// For N outputs and K inputs in G groups:
//
//	                     codes            zeros            scales   zero
//	AWQ                  [K][N/8]         [G][N/8]         [G][N]   as stored
//	GPTQ                 [K/8][N]         [G][N/8]         [G][N]   one more than stored; as stored in gptq_v2
//	compressed-tensors   [N][K/8]         [N/8][G]         [N][G]   as stored; 8 if there are none
//
// AWQ packs the outputs 0, 2, 4, 6, 1, 3, 5, 7 of eight in this order. GPTQ and compressed-tensors may assign inputs to
// groups in any order (act-order): a tensor names the group of each input then.
package int4
