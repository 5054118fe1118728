package gateway

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/tenant"
	"parley/queue"
)

// TestPeopleWaitBesidePrograms fills the queue with programs of one organisation, and
// then a page of the same organisation asks: it takes the place of a program, and waits
// for longer than programs may.
func TestPeopleWaitBesidePrograms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := slots(t, 1, "one two", 50*time.Second)
		s := start(t, w, narrow, func(c *Config) {
			c.Admission.Queue.DepthMax = 2
			c.Admission.Queue.Tiers[parley.Free] = queue.Tier{DepthMax: 2}
			c.Admission.AnswerMax = time.Hour
			c.Admission.FirstTokenMax = time.Hour
		})
		s.gateway.who = func(c *call) (*tenant.Identity, error) { return &tenant.Identity{Organization: "acme"}, nil }
		var group sync.WaitGroup
		s.occupy(&group, "acme", 1, 50*time.Second)
		statuses := make([]int, 3)
		for i := range statuses {
			group.Go(func() {
				response, _, err := s.send(t.Context(), "acme", "")
				if err != nil {
					t.Error(err)
					return
				}
				statuses[i] = response.StatusCode
			})
			synctest.Wait()
		}
		group.Go(func() {
			r := mustRequest(t, t.Context(), chatBody(""))
			r.AddCookie(&http.Cookie{Name: s.gateway.cookies.Name(stateless.scope()), Value: "a session"})
			began := time.Now()
			response, err := s.client.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != 200 || !strings.Contains(string(body), "one two") ||
				time.Since(began) < 2*time.Minute {
				t.Errorf("the person: %v, %d after %v: %s", err, response.StatusCode, time.Since(began), body)
			}
		})
		group.Wait()
		s.settled(&w.worker)
		s.wantMetric(`parley_shed_total{pool="local",reason="displaced",tier="free"}`, "1")
		refused := 0
		for _, status := range statuses {
			if status == http.StatusServiceUnavailable {
				refused++
			}
		}
		if refused < 2 {
			t.Errorf("programs: %v: want the one without room and the one that was displaced refused", statuses)
		}
	})
}
