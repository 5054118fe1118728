// Package term is a terminal as a conversation needs it: a line editor with
// several lines and a history, and answers that wrap and have a little colour
// as they come.
//
// What decides is pure and is tested without a terminal: [Keys] turns bytes
// into keys, [Editor] turns keys into text, layout places the text in rows, and
// [Prose] turns an answer into what is written to the screen. [Device] is the
// terminal itself and [Input] ties them together.
//
// Text that was not written by the user of this terminal never reaches the
// screen as it is: control characters in it are shown, not obeyed.
package term
