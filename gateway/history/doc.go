// Package history reads what was said before from the conversation store: the chain of
// responses before a response, the messages before a turn, and the items that a request
// refers to. It also has what the routes of stored things share: whose they are, their
// quota, the pages of a list, and items as the store has them.
package history
