package web

import "time"

// A Reload is the result of a reload of the configuration: the response of POST /-/reload, and a part of the weight page.
type Reload struct {
	Time  time.Time `json:"time"`
	Rules int       `json:"rules"` // in force

	// Names of rules, compared with those in force before.
	Added   []string `json:"added"`
	Removed []string `json:"removed"`
	Changed []string `json:"changed"`

	Restart []string `json:"restart"`         // changed options, which take effect at a restart
	Error   string   `json:"error,omitempty"` // of the parts that stay as they were
}
