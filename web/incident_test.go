package web

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/taredb/tare/internal/history/explain"
	"github.com/taredb/tare/internal/history/markers"
)

// TestIncident expects the page, the JSON and the image of an incident to contain its sentence and its
// possible cause, and no text for accounts that may see none.
func TestIncident(t *testing.T) {
	now := time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC)
	o := testOptions()
	o.Statements = risingStatements{&fakeStatements{}}
	o.Now = func() time.Time { return now }
	o.Gate = testGate(t, o.Log)
	store, err := markers.Open(markers.Options{Log: o.Log, Now: o.Now})
	if err != nil {
		t.Fatal(err)
	}
	store.Add(markers.Marker{Kind: "deploy", Title: "shop 4.2 " + hostile, Time: now.Add(-31 * time.Minute), User: "ci"})
	o.Markers, o.Calls = store, fakeCalls{}
	plan := func(id, access string) explain.Plan {
		return explain.Plan{ID: id, Steps: []explain.Step{{Table: "orders", Access: access}}}
	}
	before, after := plan("1", "ref"), plan("2", "ALL")
	o.PlanSource = fakePlans{explain.State{Plans: []explain.Plan{after, before}, Changes: []explain.Change{{At: now, Before: before, After: after}}}}
	h := New(o).Handler()
	const sentence, cause = "6× heavier since 02:30", "Caused by shop 4.2 "
	get := func(path, user string) string {
		t.Helper()
		code, body := browse(t, h, path, user)
		if code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, code, body)
		}
		return body
	}
	page := get("/incident/"+someDigest, "dba")
	for _, want := range []string{sentence, cause, "full scan", "10.0.0.9", "heavier since 02:30:00", "/incident/00000000000000000000000000000000/card.svg?from=2026-01-31T02%3A00%3A00Z", "<small>before 0.20 active</small>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	var got incident
	text := get("/api/v1/incidents/"+someDigest, "dba")
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if !got.Rising || !got.Lasts || got.Since == nil || !got.Since.Equal(now.Add(-30*time.Minute)) || !strings.HasPrefix(got.Sentence, sentence) || !strings.HasPrefix(got.Cause, cause) ||
		len(got.PlanBefore) != 1 || len(got.PlanAfter) != 1 || len(got.Differences) == 0 || got.Text == "" || got.Within.Load < 5*got.Before.Load || got.Within.Duration < 2*got.Before.Duration {
		t.Errorf("got %s", text)
	}
	card := get("/incident/"+someDigest+"/card.svg", "dba")
	d := xml.NewDecoder(strings.NewReader(card))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the image is no XML: %v\n%s", err, card)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "script" {
			t.Error("the image has a script")
		}
	}
	if !strings.Contains(card, sentence) || !strings.Contains(card, "Caused by") || !strings.Contains(card, "<path") {
		t.Errorf("the image is %s", card)
	}
	for _, path := range []string{"/incident/" + someDigest, "/api/v1/incidents/" + someDigest, "/incident/" + someDigest + "/card.svg"} {
		body := get(path, "guest")
		if strings.Contains(body, "secret") || strings.Contains(body, "full scan") || strings.Contains(body, "tag release") || !strings.Contains(body, sentence) {
			t.Errorf("%s without texts has parts of one, or no sentence", path)
		}
		if code, _ := browse(t, h, path+"?from=never", "dba"); code != http.StatusBadRequest {
			t.Errorf("%s?from=never: %d", path, code)
		}
	}
	if text := get("/api/v1/incidents/"+someDigest+"?from=now-5m", "dba"); !strings.Contains(text, `"affected":[`) {
		t.Errorf("of a short range %s", text)
	}
}
