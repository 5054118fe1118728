// Package scale decides how many workers a pool should have. It takes what is seen of the
// pool and now, and returns a number with a sentence that says why; others start and
// drain workers.
//
// # What is looked at
//
// Requests that arrive, against what one worker was seen to serve; how long a request is
// expected to wait in the queue, against the objective; and the share of blocks that
// sequences use. Not how busy processors are: a GPU that decodes one sequence is as busy
// as one that decodes a hundred, and one whose memory is full may look idle.
//
// What one worker serves is seen when requests wait. Until they first do, workers that serve
// all that comes are enough, unless the config says what one serves. While none waits later, it
// is believed to serve a little more from time to time, as long as it is near what is believed
// and memory is not nearer to its limit: else workers that could do more would be paid for ever.
//
// # What is kept ready
//
// A worker takes its cold start to be of use. So the number is that for the most requests
// expected until a worker that starts now is ready. What is expected follows from the
// time of day and of the week: the mean rate of each part of the day on earlier days, or of each
// part of the week in earlier weeks, scaled by how the rate compares with it lately. Which of the
// two is taken follows from which was nearer to what came, over the last week. Before a day has
// passed the present rate is expected to stay.
// A warm pool is added: the workers for the most by which requests exceeded, lately, what
// had been expected a cold start before. On a first day that is the steepest rise times the
// cold start; where the forecast is right it is nothing.
//
// # What keeps it steady
//
// Workers are added at once. They leave when fewer were enough for a while, never so
// many that those left could not hold the answers under way, and none below the minimum.
// The maximum and the budget bound everything else.
package scale
