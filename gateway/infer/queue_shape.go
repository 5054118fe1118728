package infer

// A QueuePlace is the position of a request.
type QueuePlace struct {
	Object string `json:"object"`
	ID     string `json:"id"`
	Model  string `json:"model"`
	Tier   string `json:"tier"`
	// Status is waiting or running.
	Status string `json:"status"`
	// Position is 1 for the next one, and 0 for one that runs.
	Position int `json:"position"`
	// Waited and EstimatedWait are seconds.
	Waited        float64 `json:"waited_seconds"`
	EstimatedWait float64 `json:"estimated_wait_seconds"`
}

// A QueueList has the queues of all models.
type QueueList struct {
	Object string  `json:"object"`
	Data   []Queue `json:"data"`
}

// A Queue says how busy a model is.
type Queue struct {
	Object string `json:"object"`
	Model  string `json:"model"`
	// Pool is that of the workers; empty where there is one.
	Pool    string `json:"pool,omitempty"`
	Waiting int    `json:"waiting"`
	// EstimatedWait is how long all that waits will take, in seconds.
	EstimatedWait   float64     `json:"estimated_wait_seconds"`
	TokensPerSecond float64     `json:"tokens_per_second"`
	Tiers           []QueueTier `json:"tiers"`
}

// A QueueTier has a queue's requests of one tier.
type QueueTier struct {
	Tier    string `json:"tier"`
	Waiting int    `json:"waiting"`
	// Shedding is the share of what comes that is rejected.
	Shedding float64 `json:"shedding"`
}
