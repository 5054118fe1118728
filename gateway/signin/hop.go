package signin

import (
	"html"

	"parley/gateway/exchange"
)

// hop answers with a page that leads to another, at once unless there is a refusal to read.
func hop(x *exchange.Exchange, status int, back, refusal string) error {
	link := "<p><a href=\"" + html.EscapeString(back) + "\">"
	if refusal != "" {
		body := "<p>" + html.EscapeString(refusal) + "</p>\n" + link + "Back to sign-in</a></p>"
		return x.SendPage(status, "You are not signed in", body, "")
	}
	return x.SendPage(status, "You are signed in", link+"Continue</a></p>", back)
}
