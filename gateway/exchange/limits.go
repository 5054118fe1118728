package exchange

import (
	"net/http"
	"strconv"
	"time"

	"parley/limit"
)

// TellLimits keeps what is left of the limits for the headers, unless the client gets
// none: frames of a WebSocket have no headers, and an open stream need not keep any. A
// later verdict replaces an earlier one.
func (x *Exchange) TellLimits(v *limit.Verdict) {
	if x.ResponseWriter != nil && x.Frame == nil {
		x.limits = v
	}
}

// tellLimits puts what is left of the limits into headers.
func tellLimits(h http.Header, v *limit.Verdict) {
	tellLevel(h, &requestHeaders, v.Requests)
	tellLevel(h, &tokenHeaders, v.Tokens)
	if v.Budget.Alerted() {
		h[budgetHeader] = []string{strconv.FormatFloat(float64(v.Budget.Used()/10)/100, 'f', 2, 64)}
	}
}

// budgetHeader says how much of a budget is spent, from its alert on.
const budgetHeader = "X-Parley-Budget-Used"

// levelHeaders are what describes a level: the limit, what is left, and when all of
// it is there again. They are written as a header has them.
type levelHeaders [3]string

var (
	requestHeaders = levelHeaders{"X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests",
		"X-Ratelimit-Reset-Requests"}
	tokenHeaders = levelHeaders{"X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"}
)

func tellLevel(h http.Header, names *levelHeaders, l limit.Level) {
	if l.Limit == 0 {
		return
	}
	values := []string{strconv.FormatInt(l.Limit, 10), strconv.FormatInt(l.Left, 10),
		l.Reset.Round(time.Millisecond).String()}
	for i, name := range names {
		h[name] = values[i : i+1 : i+1]
	}
}
