package exchange

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
)

// plainStyle has the measures and colours of web/src/shared/tokens.css.
const plainStyle = `:root{color-scheme:light dark}` +
	`body{margin:20vh auto 0;max-width:32rem;padding:0 1.5rem;background:light-dark(#faf9f6,#161615);` +
	`color:light-dark(#57534c,#b0aba1);font:.9375rem/1.55 system-ui,sans-serif}` +
	`h1{color:light-dark(#1d1c1a,#ebe9e4);font:400 2rem/1.2 Georgia,serif}` +
	`a{color:light-dark(#0e6655,#58c2ab);text-underline-offset:.15em}` +
	`:focus-visible{outline:2px solid;outline-offset:2px}`

// plainPolicy lets a plain page do nothing but look as it does.
var plainPolicy = func() string {
	sum := sha256.Sum256([]byte(plainStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// SendPage answers with a page that has no script: a heading, and under it HTML, in which the caller has escaped
// what others wrote. If next is not empty, the browser opens that address at once.
//
// It does without html/template: a program with templates keeps every exported method of every type, since a template
// may call it, and becomes a fifth larger.
func (x *Exchange) SendPage(status int, heading, body, next string) error {
	h := x.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", plainPolicy)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer") // an address may have a code in it
	h.Set("X-Content-Type-Options", "nosniff")
	heading = html.EscapeString(heading)
	page := `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>` + heading + ` · Parley</title>
`
	if next != "" {
		page += `<meta http-equiv="refresh" content="0;url=` + html.EscapeString(next) + "\">\n"
	}
	page += "<style>" + plainStyle + "</style>\n</head>\n<body>\n<main>\n<h1>" + heading + "</h1>\n" + body +
		"\n</main>\n</body>\n</html>\n"
	return x.Send(status, []byte(page))
}
