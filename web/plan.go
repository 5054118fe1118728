package web

import "bytes"

// planFrame is the page of a plan around its data and its script. The policy
// lets it ask for nothing: the file is complete.
var planFrame = [3]string{`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'">
<title>Parley · Plan</title>
</head>
<body>
<div id="app"></div>
<script type="application/json" id="plan">`, `</script>
<script>`, `</script>
</body>
</html>
`}

// PlanPage returns the page of a plan as one file that needs no server. data is
// JSON without the characters that end a script, as encoding/json writes it.
func PlanPage(data []byte) []byte {
	return bytes.Join([][]byte{
		[]byte(planFrame[0]), data, []byte(planFrame[1]), mustUnpack("dist/plan.js.gz"), []byte(planFrame[2]),
	}, nil)
}
