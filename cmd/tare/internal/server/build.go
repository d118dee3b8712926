package server

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/taredb/tare/store/promapi"
)

// A Build identifies a program. Its JSON form is stable.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"` // built from a tree with uncommitted changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// ThisBuild returns the version and commit set by the linker, otherwise those recorded by Go.
func ThisBuild(version, commit string) Build {
	info, _ := debug.ReadBuildInfo()
	return buildOf(info, version, commit)
}

// buildOf is ThisBuild with the information recorded by Go; nil if there is none.
func buildOf(info *debug.BuildInfo, version, commit string) Build {
	b := Build{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info != nil {
		b.Version = info.Main.Version
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = s.Value
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	b.Version = cmp.Or(version, b.Version)
	if commit != "" {
		b.Commit, b.Modified = commit, false
	}
	return b
}

// Prometheus returns the response of /api/v1/status/buildinfo. Clients use its version to decide which
// features of Prometheus' API are available.
func (b Build) Prometheus() promapi.BuildInfo {
	return promapi.BuildInfo{Version: promapi.DefaultVersion, Revision: b.Commit, GoVersion: b.Go}
}
