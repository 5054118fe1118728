// Package conversations answers the routes under /v1/conversations: what a user has
// stored, and may list, search, change, branch, export and import.
package conversations
