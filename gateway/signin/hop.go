package signin

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"html/template"

	"parley/gateway/exchange"
)

const hopStyle = `:root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:32rem;` +
	`margin:20vh auto 0;padding:0 1rem}a{display:inline-block;padding:.75rem 0}`

var hopPage = template.Must(template.New("hop").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Parley</title>
{{if not .Refusal}}<meta http-equiv="refresh" content="0;url={{.Back}}">
{{end}}<style>` + hopStyle + `</style>
</head>
<body>
<main>
{{if .Refusal}}<h1>You are not signed in</h1>
<p>{{.Refusal}}</p>
<a href="{{.Back}}">Back to sign-in</a>
{{else}}<h1>You are signed in</h1>
<a href="{{.Back}}">Continue</a>
{{end}}</main>
</body>
</html>
`))

// hopPolicy lets the page do nothing but look like it does.
var hopPolicy = func() string {
	sum := sha256.Sum256([]byte(hopStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// hop answers with a page that leads to another, at once unless there is a refusal to read.
func hop(x *exchange.Exchange, status int, back, refusal string) error {
	var page bytes.Buffer
	if err := hopPage.Execute(&page, struct{ Back, Refusal string }{back, refusal}); err != nil {
		return err
	}
	h := x.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", hopPolicy)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer") // the address has the code
	h.Set("X-Content-Type-Options", "nosniff")
	return x.Send(status, page.Bytes())
}
