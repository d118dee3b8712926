package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const (
	// story is the length of a demo with an incident: a release after deployAfter queries in a loop, and is rolled back
	// after healAfter. A shorter demo scales both.
	story       = 180 * time.Second
	deployAfter = 60 * time.Second
	healAfter   = 150 * time.Second

	// storyRange is the range of the pages that shows the incident with its onset.
	storyRange = "now-5m"
)

// scaled returns a time of the story for a demo of this length; 0 is a demo without end.
func scaled(at, length time.Duration) time.Duration {
	if length == 0 || length >= story {
		return at
	}
	return time.Duration(float64(at) * float64(length) / float64(story))
}

// deploy reports the release, as a deployment would, and says where to look.
func (s *stage) deploy(ctx context.Context) error {
	s.deployed = time.Now()
	err := s.reportEvent(ctx, "shop 4.2", "The list of a customer's orders queries the items of each order.")
	s.places.find = "Incident     see " + s.places.web + "/?from=" + storyRange + ": " + clock(s.deployed) + " shop 4.2 is deployed; what is heavier, and why?"
	return err
}

// heal reports the rollback.
func (s *stage) heal(ctx context.Context) error {
	now := time.Now()
	err := s.reportEvent(ctx, "shop 4.1", "Rolled back.")
	s.places.find = "Incident     see " + s.places.web + "/?from=" + storyRange + ": " + clock(s.deployed) + " – " + clock(now) + ", rolled back to shop 4.1"
	return err
}

// clock formats a time as the pages do.
func clock(t time.Time) string { return t.UTC().Format(time.TimeOnly) + " UTC" }

// reportEvent posts an event to the gateway.
func (s *stage) reportEvent(ctx context.Context, title, text string) error {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]string{"kind": "deploy", "title": title, "text": text})
	if err != nil {
		return fmt.Errorf("report a deployment: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.places.web+"/api/v1/events", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("report a deployment: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("report a deployment: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("report a deployment: %s", resp.Status)
	}
	return nil
}
