// Package hub downloads the files of models: from the Hugging Face Hub, from a
// mirror that speaks its protocol, or from any web server.
//
// [Client.Repo] lists a repository at one commit. [Client.Fetch] downloads a set of
// files into a directory. What it promises:
//
//   - A file has its final name only when it is complete and its checksum is right.
//     Until then it is NAME.part, beside NAME.part.json, which says how far each range
//     has come. A later Fetch continues there, also after a crash.
//   - Large files come as several ranges at a time. A server without ranges sends the
//     whole file as one stream.
//   - Broken and stalled connections, 429 and 5xx are tried again, from the byte they
//     stopped at, and no sooner than Retry-After says. Each byte that arrives resets the
//     count of attempts.
//   - Processes that download into one directory take turns by [Client.Lock]: the later
//     one finds the files complete.
//   - The token is sent to the endpoint's own host over the endpoint's own scheme. Blob
//     storage, to which the Hub redirects, never sees it.
//   - The server is not trusted: paths that leave the directory, sizes that cannot be,
//     ranges that were not asked for and bytes that do not match are refused, and room
//     on the disk is checked before the first byte.
package hub
