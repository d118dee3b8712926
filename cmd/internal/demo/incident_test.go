package demo

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestIncidentIsAnnounced checks that the release and its rollback are reported to the gateway, and that the display says
// where to look.
func TestIncidentIsAnnounced(t *testing.T) {
	var titles []string
	status := http.StatusCreated
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var event struct{ Kind, Title, Text string }
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil || r.Method != http.MethodPost || r.URL.Path != "/api/v1/events" || event.Kind != "deploy" || event.Text == "" {
			t.Errorf("%s %s %+v: %v", r.Method, r.URL, event, err)
		}
		titles = append(titles, event.Title)
		w.WriteHeader(status)
	}))
	defer server.Close()
	s := &stage{client: server.Client(), places: places{mysql: "127.0.0.1:3316", web: server.URL}}
	var out strings.Builder
	d := &display{lines: &out}
	for _, err := range []error{d.announce(s, s.deploy(t.Context())), d.announce(s, s.heal(t.Context()))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(titles, ", "); got != "shop 4.2, shop 4.1" {
		t.Errorf("reported %s", got)
	}
	for _, want := range []string{"shop 4.2 is deployed", "rolled back to shop 4.1", server.URL + "/?from=now-5m"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
	if frame := string(appendFrame(nil, &view{}, d.places, 200, 40)); !strings.Contains(frame, "rolled back to shop 4.1") {
		t.Errorf("the frame does not say where to look:\n%s", frame)
	}
	status = http.StatusForbidden
	d.lines = io.Discard
	if err := d.announce(s, s.deploy(t.Context())); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a refused report: %v", err)
	}
}

func TestScaled(t *testing.T) {
	for _, c := range []struct{ at, length, want time.Duration }{
		{deployAfter, 0, time.Minute},
		{healAfter, time.Hour, 150 * time.Second},
		{deployAfter, 3 * time.Minute, time.Minute},
		{deployAfter, 30 * time.Second, 10 * time.Second},
		{healAfter, 30 * time.Second, 25 * time.Second},
	} {
		if got := scaled(c.at, c.length); got != c.want {
			t.Errorf("%v of %v: %v, want %v", c.at, c.length, got, c.want)
		}
	}
}
