package grammar

// A parserState is a node of a program and the frame to return to; a frame of
// bottom is the end of the grammar.
type parserState struct {
	node, frame int32
}

const bottom int32 = -1

// A frame is where a call returns to. For a repetition, count is the number of
// the run that is under way.
type frame struct {
	node, parent int32
	count, depth int32
}

// A runner follows a program through bytes. Its places and frames are stacks
// on which each step puts what it reaches; a caller that looks ahead must pop that
// again. The zero value is ready. It is not safe for concurrent use.
type runner struct {
	p      *Program
	frames []frame
	places []parserState
	// complete: the last step reached the end of the grammar.
	complete bool
	// room is how deep the stack may become.
	room int32
	// overflow: places were given up because there were too many. Each of the
	// others can still be completed.
	overflow bool
}

// depth returns the number of frames from frame down.
func (r *runner) depth(f int32) int32 {
	if f == bottom {
		return 0
	}
	return r.frames[f].depth
}

// reset forgets everything and takes up program p.
func (r *runner) reset(p *Program) {
	r.p, r.frames, r.places, r.complete, r.room, r.overflow = p, r.frames[:0], r.places[:0], false, framesMax, false
}

// begin puts the places at the start of the program.
func (r *runner) begin(start int32) {
	from := len(r.places)
	r.complete = false
	r.enter(from, start, bottom)
	r.settle(from)
}

// step takes b from the places between from and to and puts on top what it
// leads to. It reports whether anything is left.
func (r *runner) step(from, to int, b byte) bool {
	top := len(r.places)
	r.complete = false
	for i := from; i < to; i++ {
		at := r.places[i]
		if next := r.p.next(at.node, b); next >= 0 {
			r.add(top, next, at.frame)
		}
	}
	if len(r.places)-top > placesMax {
		r.places, r.overflow = r.places[:top+placesMax], true
	}
	r.settle(top)
	return r.complete || len(r.places) > top
}

// settle follows all calls and returns from the places from top on, until only
// places are left that take a byte.
func (r *runner) settle(top int) {
	for i := top; i < len(r.places); i++ {
		at := r.places[i]
		n := &r.p.nodes[at.node]
		if n.accept {
			r.leave(top, at.frame)
		}
		for _, l := range n.calls {
			r.call(top, l, at.frame)
		}
	}
	kept := top
	for _, at := range r.places[top:] {
		if len(r.p.nodes[at.node].edges) > 0 {
			r.places[kept] = at
			kept++
		}
	}
	r.places = r.places[:kept]
}

// call enters a rule, with a frame to come back to unless there is nothing to
// do afterwards.
func (r *runner) call(top int, l link, f int32) {
	if l.last {
		r.enter(top, l.start, f)
		return
	}
	if r.depth(f)+int32(r.p.needs[l.back]) <= r.room && r.depth(f)+1+int32(r.p.needs[l.start]) <= r.room {
		r.enter(top, l.start, r.push(l.back, f, 0))
	}
}

// enter begins the rule that starts at a node.
func (r *runner) enter(top int, start, f int32) {
	if r.p.nodes[start].repeat != nil {
		r.repeat(top, start, 0, f)
		return
	}
	r.add(top, start, f)
}

// repeat continues a repetition of which count runs are complete.
func (r *runner) repeat(top int, at, count, f int32) {
	n := &r.p.nodes[at]
	if count >= n.repeat.least {
		r.leave(top, f)
	}
	if n.repeat.most == 0 {
		count = min(count, n.repeat.least)
	} else if count >= n.repeat.most {
		return
	}
	if r.depth(f)+1+int32(r.p.needs[n.body]) <= r.room {
		r.enter(top, n.body, r.push(at, f, count+1))
	}
}

// leave returns to a frame.
func (r *runner) leave(top int, f int32) {
	if f == bottom {
		r.complete = true
		return
	}
	to := r.frames[f]
	if r.p.nodes[to.node].repeat != nil {
		r.repeat(top, to.node, to.count, to.parent)
		return
	}
	r.add(top, to.node, to.parent)
}

func (r *runner) push(node, parent, count int32) int32 {
	r.frames = append(r.frames, frame{node, parent, count, r.depth(parent) + 1})
	return int32(len(r.frames) - 1)
}

// add puts a place on top of those from top on, unless it is there already or
// could not be completed in the room that is left.
func (r *runner) add(top int, node, f int32) {
	if r.depth(f)+int32(r.p.needs[node]) > r.room {
		return
	}
	for _, other := range r.places[top:] {
		if other.node == node && r.sameStack(other.frame, f) {
			return
		}
	}
	r.places = append(r.places, parserState{node, f})
}

func (r *runner) sameStack(a, b int32) bool {
	for a != b {
		if a == bottom || b == bottom {
			return false
		}
		x, y := &r.frames[a], &r.frames[b]
		if x.node != y.node || x.count != y.count || x.depth != y.depth {
			return false
		}
		a, b = x.parent, y.parent
	}
	return true
}

// drop takes everything off again that was put on since.
func (r *runner) drop(places, frames int) {
	r.places, r.frames = r.places[:places], r.frames[:frames]
}
