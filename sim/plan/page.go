package plan

// A Page is what the page in the browser computes from: the arithmetic, the
// names, and the settings to begin with.
type Page struct {
	Sheet    *Sheet   `json:"sheet"`
	Catalog  *Catalog `json:"catalog"`
	Settings Settings `json:"settings"`
}

// Page returns what the page needs, with the settings that it opens with.
func (p *Planner) Page(settings Settings) *Page {
	return &Page{Sheet: p.Sheet, Catalog: p.Catalog, Settings: defaults.With(settings)}
}
