package host

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"parley/compute"
	"parley/engine"
	"parley/engine/kv"
	"parley/engine/tier"
	"parley/model"
	"parley/worker/kvwire"
)

// tierBlocks returns how many blocks the tiers behind the device hold.
func (p *Plan) tierBlocks() (host, disk int) {
	block := p.blockBytes()
	return int(p.cfg.KVHostBytes / block), int(p.cfg.KVDiskBytes / block)
}

func (p *Plan) blockBytes() int64 {
	return model.KVShape(&p.ck.Config, 1, p.cfg.KVType).BlockBytes()
}

// openTiers takes the memory behind the device and returns the blocks that an
// earlier process left on the disk.
func (p *Plan) openTiers(backend compute.Backend) (*tier.Store, []kv.DiskBlock, error) {
	hostBlocks, diskBlocks := p.tierBlocks()
	cfg := tier.Config{
		Device:     tier.DeviceOf(backend),
		BlockBytes: p.blockBytes(),
		HostBlocks: hostBlocks,
		DiskBlocks: diskBlocks,
		Path:       filepath.Join(p.cfg.DataDir, "kv", url.PathEscape(p.Name)+".blocks"),
	}
	if diskBlocks > 0 {
		cfg.Fingerprint = p.fingerprint(arithmeticOf(backend), p.cfg.KVType.String())
		p.ck.Forget()
	}
	return tier.Open(cfg)
}

// content returns how the engine reads and writes blocks.
func (p *Plan) content(tiers *tier.Store) *engine.Content {
	return &engine.Content{Bytes: int(p.blockBytes()), Read: tiers.ReadBlock, Write: tiers.WriteBlock}
}

// format returns what other workers must have in common to exchange blocks with h.
func (p *Plan) format(h *Host) kvwire.Format {
	weights := p.fingerprint("", "")
	h.ck.Forget()
	return kvwire.Format{
		Version:     kvwire.Version,
		Weights:     hex.EncodeToString(weights[:]),
		Arithmetic:  arithmeticOf(h.backend),
		KVType:      p.cfg.KVType.String(),
		BlockTokens: compute.BlockTokens,
		BlockBytes:  int(p.blockBytes()),
	}
}

// arithmeticOf names what of a backend the bits of its results depend on.
func arithmeticOf(backend compute.Backend) string {
	arithmetic, _, _ := strings.Cut(backend.Name(), ",") // the threads do not matter
	return arithmetic
}

// fingerprint names what keys and values depend on besides the tokens: the
// weights and whether they are rounded, the arithmetic, and the layout of a block. Of each tensor it takes
// its description and some of its bytes, so that a large model opens quickly.
func (p *Plan) fingerprint(arithmetic, kvType string) [32]byte {
	const sample = 4096
	h := sha256.New()
	fmt.Fprintf(h, "%s %s %+v%s\n", arithmetic, kvType, p.ck.Config, p.Weights)
	for _, t := range p.ck.Tensors() {
		stored := t.Stored()
		fmt.Fprintf(h, "%s %s %v %d\n", t.Name, t.Type, t.Shape, len(stored))
		for _, at := range []int{0, len(stored) / 2, len(stored) - sample} {
			at = max(at, 0)
			h.Write(stored[at:min(at+sample, len(stored))])
		}
	}
	return [32]byte(h.Sum(nil))
}
