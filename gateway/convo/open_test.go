package convo

import (
	"sync"
	"testing"
)

// TestOpenedTogether has several processes' worth of stores open at once.
func TestOpenedTogether(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		stores := make([]*Store, 8)
		var group sync.WaitGroup
		for i := range stores {
			group.Go(func() {
				s, err := Open(t.Context(), dsn)
				if err != nil {
					t.Error(err)
					return
				}
				stores[i] = s
			})
		}
		group.Wait()
		for _, s := range stores {
			if s == nil {
				continue
			}
			if _, err := s.CreateConversation(t.Context(), ann, NewConversation{}, at(0)); err != nil {
				t.Error(err)
			}
			check(t, s.Close())
		}
		list := must(opened(t, dsn).Conversations(t.Context(), ann, Filter{}, Page{}))(t)
		if len(list.Items) != len(stores) {
			t.Errorf("%d conversations, want %d", len(list.Items), len(stores))
		}
	})
}
