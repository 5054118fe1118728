package convo

import "parley"

// A Node is a message without what it says: the shape of a conversation.
type Node struct {
	ID, Parent string
	Seq        int64
	Role       string
	Status     Status
}

// A Forest is a conversation's shape, made for walking. Every parent must come
// before its children, as Store.Tree returns them.
type Forest struct {
	nodes    []Node
	at       map[string]int
	children map[string][]int
}

// NewForest indexes nodes. It fails if an id comes twice or a parent does not
// come before its child, so a Forest has no cycles.
func NewForest(nodes []Node) (*Forest, error) {
	f := &Forest{nodes: nodes, at: make(map[string]int, len(nodes)), children: map[string][]int{}}
	for i, n := range nodes {
		if _, double := f.at[n.ID]; double || n.ID == "" {
			return nil, parley.Invalid("messages", "Message %d has the id %q, which is empty or taken.", i, n.ID)
		}
		if _, known := f.at[n.Parent]; n.Parent != "" && !known {
			return nil, parley.Invalid("messages", "Message %d (%q) follows %q, which does not come before it.", i,
				n.ID, n.Parent)
		}
		f.at[n.ID] = i
		f.children[n.Parent] = append(f.children[n.Parent], i)
	}
	return f, nil
}

// Path returns the ids from a first message to leaf, or nil if there is no
// such message.
func (f *Forest) Path(leaf string) []string {
	depth := 0
	for id := leaf; id != "" && f.has(id); id = f.nodes[f.at[id]].Parent {
		depth++
	}
	if depth == 0 {
		return nil
	}
	path := make([]string, depth)
	for id := leaf; depth > 0; id = f.nodes[f.at[id]].Parent {
		depth--
		path[depth] = id
	}
	return path
}

func (f *Forest) has(id string) bool { _, ok := f.at[id]; return ok }

// Tip returns where the branch through id ends, taking the newest child at
// every fork.
func (f *Forest) Tip(id string) string {
	for {
		children := f.children[id]
		if len(children) == 0 {
			return id
		}
		id = f.nodes[children[len(children)-1]].ID
	}
}
