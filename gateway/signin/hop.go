package signin

import (
	"crypto/sha256"
	"encoding/base64"
	"html"

	"parley/gateway/exchange"
)

const hopStyle = `:root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:32rem;` +
	`margin:20vh auto 0;padding:0 1rem}a{display:inline-block;padding:.75rem 0}`

const hopHead = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Parley</title>
`

const hopBody = `<style>` + hopStyle + `</style>
</head>
<body>
<main>
`

const hopEnd = `</main>
</body>
</html>
`

// hopPage writes the page. It does without html/template: a program with templates keeps every
// exported method of every type, since a template may call it, and becomes a fifth larger.
func hopPage(back, refusal string) string {
	back, refusal = html.EscapeString(back), html.EscapeString(refusal)
	if refusal != "" {
		return hopHead + hopBody + "<h1>You are not signed in</h1>\n<p>" + refusal + "</p>\n<a href=\"" + back +
			"\">Back to sign-in</a>\n" + hopEnd
	}
	return hopHead + `<meta http-equiv="refresh" content="0;url=` + back + "\">\n" + hopBody +
		"<h1>You are signed in</h1>\n<a href=\"" + back + "\">Continue</a>\n" + hopEnd
}

// hopPolicy lets the page do nothing but look like it does.
var hopPolicy = func() string {
	sum := sha256.Sum256([]byte(hopStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// hop answers with a page that leads to another, at once unless there is a refusal to read.
func hop(x *exchange.Exchange, status int, back, refusal string) error {
	h := x.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", hopPolicy)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer") // the address has the code
	h.Set("X-Content-Type-Options", "nosniff")
	return x.Send(status, []byte(hopPage(back, refusal)))
}
