// Package remote talks to a running server for the commands: documents, metrics, the
// live picture, and questions with streamed answers. Where a server has no keys it
// shows the token that the server left for its user.
package remote
