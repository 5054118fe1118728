package plan

import (
	"encoding/json"
	"maps"
	"testing"
)

// FuzzReadConfig: whatever a config.json says, it is refused or gives a shape that can be planned.
func FuzzReadConfig(f *testing.F) {
	f.Add([]byte(`{"hidden_size":64,"intermediate_size":128,"num_attention_heads":4,
		"num_hidden_layers":3,"vocab_size":9}`))
	f.Add([]byte(`{"text_config":{"num_hidden_layers":1e300,"hidden_size":-1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		shape, err := ReadConfig(text)
		if err != nil {
			return
		}
		values, err := planner.Sheet.Evaluate(merged(shape, planner.Catalog.Devices["h100"]))
		if err != nil || !(values["kv_token"] > 0) {
			t.Errorf("%s: a token takes %g bytes, %v", text, values["kv_token"], err)
		}
	})
}

// FuzzRead: whatever a file says, it is refused or gives settings whose plan can be written as JSON.
func FuzzRead(f *testing.F) {
	f.Add([]byte("devices: {x: {memory: 1GB, bandwidth: 1, flops: 1, price: 0}}\ndevice: x\nhit: 80%\n"))
	f.Add([]byte("kv: {odd: {kv_bytes: 3}}\nmodel: 70b\ntp: 1e300\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		ours, settings, err := planner.Read(text)
		if err != nil {
			return
		}
		result, err := ours.Plan(settings)
		if err != nil {
			return
		}
		if _, err := json.Marshal([]any{result, result.Numbers()}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	})
}

func merged(all ...Cells) Cells {
	sum := Cells{}
	for _, cells := range all {
		maps.Copy(sum, cells)
	}
	return sum
}
