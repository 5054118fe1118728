package plan

// A Page is what the page in the browser computes from: the arithmetic, the
// catalog, and the settings to begin with: names of the catalog, and values of
// cells.
type Page struct {
	Sheet   *Sheet   `json:"sheet"`
	Catalog *Catalog `json:"catalog"`
	Names   Settings `json:"names"`
	Given   Cells    `json:"given"`
}

// Page returns what the page needs to open with the settings.
func (p *Planner) Page(settings Settings) (*Page, error) {
	all := defaults.With(settings)
	page := &Page{Sheet: p.Sheet, Catalog: p.Catalog, Names: Settings{}, Given: Cells{}}
	given, err := p.resolve(all)
	if err != nil {
		return nil, err
	}
	for name, value := range all {
		if p.Catalog.Kind(name) != nil {
			page.Names[name] = value
		} else {
			page.Given[name] = given[name]
		}
	}
	return page, nil
}
