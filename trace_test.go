package parley

import (
	"testing"
)

func TestTraceparent(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	got, ok := ParseTrace(good)
	if !ok || got.String() != good || !got.Sampled {
		t.Errorf("%v, %v", got, ok)
	}
	if later, ok := ParseTrace("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-more"); !ok || later.Sampled {
		t.Error("a later version is not read as far as it is known")
	}
	for _, bad := range []string{"", "00", good + "-more", "ff" + good[2:],
		"00-" + good[3:35] + "-0000000000000000-01", "00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
		"00-zzf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"} {
		if _, ok := ParseTrace(bad); ok {
			t.Errorf("%q is taken for one", bad)
		}
	}
	ctx := WithTrace(t.Context(), got)
	if back, ok := TraceOf(ctx); !ok || back != got {
		t.Error("the context forgot it")
	}
}

func FuzzTraceparent(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Fuzz(func(t *testing.T, header string) {
		if got, ok := ParseTrace(header); ok {
			if again, ok := ParseTrace(got.String()); !ok || again != got {
				t.Errorf("%q became %q", header, got)
			}
		}
	})
}
