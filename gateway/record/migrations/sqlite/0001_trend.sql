-- One row for each period of charts: step and at are seconds, at since 1970; sample is JSON.
CREATE TABLE trend (
	step BIGINT NOT NULL,
	at BIGINT NOT NULL,
	sample TEXT NOT NULL,
	PRIMARY KEY (step, at)
);
