package store

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"

	"parley/model/hub"
)

// A Source is where a model comes from, as people write it:
//
//	qwen3:0.6b                     a name of the catalogue
//	hf:ORG/REPO                    a repository of the Hub
//	hf:ORG/REPO:Q8_0               its GGUF file of that quantization
//	hf:ORG/REPO:dir/file.gguf      one file of it
//	hf:ORG/REPO@v1.0:Q8_0          at a branch, tag or commit
//	https://huggingface.co/ORG/REPO, https://host/file.gguf
//	file.gguf, a directory         files on this machine
type Source struct {
	// Text is what was written.
	Text string
	// Repo, Revision and Variant are set for the Hub. Variant is a quantization or a file;
	// empty chooses.
	Repo, Revision, Variant string
	// URL is set for plain addresses, Path for files here.
	URL, Path string
	// Entry is set if the catalogue names the source.
	Entry *Entry
}

// ParseSource reads a source. exists reports whether a path is there: it decides
// between names and files.
func ParseSource(text string, exists func(string) bool) (Source, error) {
	if rest, ok := strings.CutPrefix(text, "hf:"); ok {
		return hubSource(text, rest)
	}
	if rest, ok := strings.CutPrefix(text, "hf.co/"); ok {
		return hubSource(text, rest)
	}
	if strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "http://") {
		return addressSource(text)
	}
	if e := FindEntry(text); e != nil {
		s, err := ParseSource(e.Source, exists)
		s.Text, s.Entry = text, e
		return s, err
	}
	if exists(text) {
		return Source{Text: text, Path: text}, nil
	}
	if strings.ContainsAny(text, `/\`) || strings.HasSuffix(text, ".gguf") {
		return Source{}, fmt.Errorf("there is no file %s", text)
	}
	return Source{}, fmt.Errorf("the catalogue has no model %q: see `parley models --available`, "+
		"or name a repository such as hf:Qwen/Qwen3-0.6B-GGUF:Q8_0", text)
}

func hubSource(text, rest string) (Source, error) {
	id, variant, _ := strings.Cut(rest, ":")
	id, rev, _ := strings.Cut(id, "@")
	if !hub.IsRepoID(id) {
		return Source{}, fmt.Errorf("%q is not the name of a repository: write hf:ORGANISATION/NAME, "+
			"and after another colon a quantization", text)
	}
	return Source{Text: text, Repo: id, Revision: rev, Variant: variant}, nil
}

// addressSource reads an address. Pages and files of the Hub are repositories, so that
// they come with checksums.
func addressSource(text string) (Source, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return Source{}, fmt.Errorf("%q is not an address", text)
	}
	if u.Host != "huggingface.co" && u.Host != "hf.co" {
		return Source{Text: text, URL: text}, nil
	}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	if len(parts) < 2 {
		return Source{}, fmt.Errorf("%q does not name a repository", text)
	}
	s, err := hubSource(text, parts[0]+"/"+parts[1])
	if len(parts) > 4 && (parts[2] == "blob" || parts[2] == "resolve") {
		s.Revision, s.Variant = parts[3], strings.Join(parts[4:], "/")
	}
	return s, err
}

// name is what the model is called unless a name is given.
func (s *Source) name(files []hub.File) string {
	if s.Entry != nil {
		return s.Entry.Name
	}
	base := s.Path
	if s.URL != "" {
		base = files[0].Path
	}
	if s.Repo == "" {
		return plainName(strings.TrimSuffix(filepath.Base(base), filepath.Ext(base)))
	}
	name := strings.TrimSuffix(strings.TrimSuffix(path.Base(s.Repo), "-GGUF"), "-gguf")
	if quant := quantOf(files[0].Path); strings.HasSuffix(files[0].Path, ".gguf") && quant != "" {
		name += ":" + quant
	}
	return plainName(strings.ToLower(name))
}

var oddLetters = regexp.MustCompile(`[^A-Za-z0-9._:-]+`)

func plainName(text string) string {
	text = strings.Trim(oddLetters.ReplaceAllString(text, "-"), "-._")
	if CheckName(text) != nil {
		return "model"
	}
	return text
}

// quantName finds the name of a quantization in a file's name.
var quantName = regexp.MustCompile(`(?i)(?:^|[-._/])((?:I?Q[1-8](?:_[0-9A-Z]+)*)|BF16|F16|F32|FP16|MXFP4)(?:[-.]|$)`)

func quantOf(file string) string {
	if m := quantName.FindStringSubmatch(file); m != nil {
		return strings.ToUpper(m[1])
	}
	return ""
}

// computed are the quantizations that Parley computes with, best choice first.
var computed = []string{
	"Q4_K_M", "Q8_0", "Q5_K_M", "Q6_K", "Q4_K_S", "Q5_K_S", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
	"BF16", "F16", "FP16", "F32",
}

// splitName matches one part of a GGUF model that is cut into several files.
var splitName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// choose picks the files of a repository that make up the wanted model, the one to open
// first.
func choose(repo *hub.Repo, variant string) ([]hub.File, error) {
	var ggufs []hub.File
	for _, f := range repo.Files {
		base := strings.ToLower(path.Base(f.Path))
		beside := strings.HasPrefix(base, "mmproj") || strings.Contains(base, "imatrix")
		if strings.HasSuffix(base, ".gguf") && !beside {
			ggufs = append(ggufs, f)
		}
	}
	sort.Slice(ggufs, func(i, j int) bool { return ggufs[i].Path < ggufs[j].Path })
	if len(ggufs) > 0 {
		return chooseGGUF(repo.ID, ggufs, variant)
	}
	if variant != "" {
		return nil, fmt.Errorf("%s has no GGUF files, so there is no %s: leave out the part after the colon",
			repo.ID, variant)
	}
	return chooseSafetensors(repo)
}

func chooseGGUF(id string, files []hub.File, variant string) ([]hub.File, error) {
	if i := slices.IndexFunc(files, func(f hub.File) bool { return f.Path == variant }); i >= 0 {
		return withParts(files, files[i])
	}
	wanted := computed
	if variant != "" {
		wanted = []string{strings.ToUpper(variant)}
	}
	for _, quant := range wanted {
		var found []hub.File
		for _, f := range files {
			if quantOf(f.Path) == quant {
				found = append(found, f)
			}
		}
		if len(found) == 0 {
			continue
		}
		whole := slices.IndexFunc(found, func(f hub.File) bool { return !splitName.MatchString(f.Path) })
		return withParts(files, found[max(whole, 0)])
	}
	if variant == "" && len(files) == 1 {
		return files, nil
	}
	return nil, fmt.Errorf("%s has no file %s: it has %s; Parley computes with %s",
		id, cmp.Or(variant, "to choose"), strings.Join(quants(files), ", "), strings.Join(computed, ", "))
}

func quants(files []hub.File) (names []string) {
	for _, f := range files {
		if q := cmp.Or(quantOf(f.Path), f.Path); !slices.Contains(names, q) {
			names = append(names, q)
		}
	}
	return names
}

// withParts returns a file and, if it is cut into parts, all of them in order.
func withParts(files []hub.File, f hub.File) ([]hub.File, error) {
	cut := splitName.FindStringSubmatch(f.Path)
	if cut == nil {
		return []hub.File{f}, nil
	}
	var parts []hub.File
	for _, other := range files {
		if m := splitName.FindStringSubmatch(other.Path); m != nil && m[1] == cut[1] && m[3] == cut[3] {
			parts = append(parts, other)
		}
	}
	if fmt.Sprintf("%05d", len(parts)) != cut[3] {
		return nil, fmt.Errorf("%s is cut into %s files, and the repository has %d of them", f.Path, cut[3], len(parts))
	}
	return parts, nil
}

// besideWeights are the files that a directory of safetensors needs to be served.
var besideWeights = []string{
	"config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja",
	"chat_template.json", "special_tokens_map.json", "model.safetensors.index.json",
}

func chooseSafetensors(repo *hub.Repo) (files []hub.File, err error) {
	var weights, has []string
	for _, f := range repo.Files {
		isWeights := strings.HasPrefix(f.Path, "model") && strings.HasSuffix(f.Path, ".safetensors") &&
			!strings.Contains(f.Path, "/")
		if isWeights {
			weights = append(weights, f.Path)
		}
		if isWeights || slices.Contains(besideWeights, f.Path) {
			files, has = append(files, f), append(has, f.Path)
		}
	}
	for _, needed := range []string{"config.json", "tokenizer.json"} {
		if !slices.Contains(has, needed) {
			return nil, fmt.Errorf("%s cannot be served: it has no GGUF file, and no %s", repo.ID, needed)
		}
	}
	if len(weights) == 0 {
		return nil, fmt.Errorf("%s cannot be served: it has neither GGUF files nor model*.safetensors", repo.ID)
	}
	// Small files first: a model that cannot be served is refused before its weights come.
	sort.Slice(files, func(i, j int) bool {
		a, b := &files[i], &files[j]
		return a.Size < b.Size || a.Size == b.Size && a.Path < b.Path
	})
	return files, nil
}
