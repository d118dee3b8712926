package promapi

import (
	"cmp"
	"os"
	"runtime"
	"runtime/debug"
	"time"
)

// BuildInfo is the response of status/buildinfo. Grafana and others derive from Version which features of the
// API they use, so it is the version of the compatible Prometheus.
type BuildInfo struct {
	Version   string `json:"version"` // default 3.15.0
	Revision  string `json:"revision"`
	Branch    string `json:"branch"`
	BuildUser string `json:"buildUser"`
	BuildDate string `json:"buildDate"`
	GoVersion string `json:"goVersion"` // default: the runtime's
}

// DefaultVersion is the version of Prometheus with which the API is compatible.
const DefaultVersion = "3.15.0"

func (b BuildInfo) withDefaults() BuildInfo {
	b.Version = cmp.Or(b.Version, DefaultVersion)
	b.GoVersion = cmp.Or(b.GoVersion, runtime.Version())
	return b
}

// RuntimeInfo is the response of status/runtimeinfo.
type RuntimeInfo struct {
	StartTime           time.Time `json:"startTime"`
	CWD                 string    `json:"CWD"` // left empty: not for clients
	Hostname            string    `json:"hostname"`
	ServerTime          time.Time `json:"serverTime"`
	ReloadConfigSuccess bool      `json:"reloadConfigSuccess"`
	LastConfigTime      time.Time `json:"lastConfigTime"`
	CorruptionCount     int64     `json:"corruptionCount"`
	GoroutineCount      int       `json:"goroutineCount"`
	GOMAXPROCS          int       `json:"GOMAXPROCS"`
	GOMEMLIMIT          int64     `json:"GOMEMLIMIT"` // bytes
	GOGC                string    `json:"GOGC"`
	GODEBUG             string    `json:"GODEBUG"`
	StorageRetention    string    `json:"storageRetention"`
}

func (c *call) buildInfo() *Error { return c.respond(c.api.o.Build) }

func (c *call) runtimeInfo() *Error {
	a := c.api
	host, err := os.Hostname()
	if err != nil {
		host = "" // a machine without a name
	}
	info := RuntimeInfo{
		StartTime:           a.start.UTC(),
		Hostname:            host,
		ServerTime:          a.o.Now().UTC(),
		ReloadConfigSuccess: true,
		LastConfigTime:      a.start.UTC(),
		GoroutineCount:      runtime.NumGoroutine(),
		GOMAXPROCS:          runtime.GOMAXPROCS(0),
		GOMEMLIMIT:          debug.SetMemoryLimit(-1),
		GOGC:                os.Getenv("GOGC"),
		GODEBUG:             os.Getenv("GODEBUG"),
	}
	if a.o.Runtime != nil {
		a.o.Runtime(&info)
	}
	return c.respond(info)
}

func (c *call) flags() *Error { return c.respond(c.api.o.Flags) }

func (c *call) config() *Error {
	return c.respond(struct {
		YAML string `json:"yaml"`
	}{c.api.o.Config()})
}
