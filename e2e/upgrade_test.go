//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/taredb/tare/internal/testmysql"
	"github.com/taredb/tare/internal/testseed"
)

// repository is the root of the checkout, from this package's directory.
const repository = ".."

// previous builds the release before this one: the latest tag v… among the ancestors of HEAD, or the commit of PREVIOUS_RELEASE.
func previous(t *testing.T) string {
	t.Helper()
	ref := os.Getenv("PREVIOUS_RELEASE")
	if ref == "" {
		out, err := exec.CommandContext(t.Context(), "git", "-C", repository, "describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^").Output()
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			t.Skip("no release precedes this commit; PREVIOUS_RELEASE names a commit to upgrade from")
		}
		must(t, err)
		ref = strings.TrimSpace(string(out))
	}
	source := cloneAt(t, ref)
	program := filepath.Join(t.TempDir(), "tare")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/tare")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", ref, err, out)
	}
	t.Logf("the previous release is %s", ref)
	return program
}

// cloneAt clones the repository and checks a commit out.
func cloneAt(t *testing.T, ref string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tare")
	mustRun(t, "", "git", "clone", "--quiet", "--no-hardlinks", repository, dir)
	mustRun(t, "", "git", "-C", dir, "-c", "advice.detachedHead=false", "checkout", "--quiet", ref)
	return dir
}

// TestUpgrade runs the previous release and this one in turn on the same --data-dir and bucket: each statement is counted once. An upgrade loses
// no local state; after a rollback, the log of the older binary names each file that it does not read.
func TestUpgrade(t *testing.T) {
	old := previous(t)
	schema := newSchema(t, mariadb, "upgrade")
	args := []string{
		"serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--backend", "mysql://" + mariadb.Addr, "--diag-format", "json",
		"--log-file", filepath.Join(t.TempDir(), "query.log"), "--data-dir", t.TempDir(), "--bucket", "file://" + t.TempDir(), "--history-interval", "1s",
	}
	const count = `sum(tare_queries_total * on (digest) group_left (text) tare_digest_info{text=~"(?i)select .*upgraded.*"})`
	sent := 0
	for i, step := range []struct {
		name, program string
		kill          bool
	}{{"the previous release", old, false}, {"an upgrade", binary, false}, {"a rollback", old, false}, {"an upgrade again", binary, true}, {"after a kill", binary, false}} {
		p := startOf(t, step.program, args)
		if lost := metricSum(t, p, "tare_local_state_lost_total"); lost != 0 && step.program == binary {
			t.Errorf("%s: %v files of --data-dir were set aside:\n%s", step.name, lost, p.text())
		}
		db := open(t, p.addr, schema)
		for range 10 + i {
			var one int
			scan(t, db, "select 1 as upgraded", &one)
			sent++
		}
		db.Close()
		eventuallyValue(t, p, count, float64(sent))
		if step.kill {
			p.kill()
		} else if code := p.end(t); code != 0 {
			t.Errorf("%s: exit code %d:\n%s", step.name, code, p.text())
		}
	}
}

// metricSum returns the sum of a metric over its labels.
func metricSum(t *testing.T, p *tare, name string) (sum float64) {
	t.Helper()
	_, text := get(t, p.http+"/metrics")
	for line := range strings.Lines(text) {
		var v float64
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == '{' || rest[0] == ' ') {
			if _, err := fmt.Sscan(rest[strings.LastIndexByte(rest, ' '):], &v); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			sum += v
		}
	}
	return sum
}

// TestCopyUpgrade resumes a killed copy of the previous release with this one, while the source is written to, and the other way round: the older
// binary resumes a newer copy, or refuses it with an error that names the version.
func TestCopyUpgrade(t *testing.T) {
	old := previous(t)
	account := testmysql.WithSetup("create or replace user copier identified by '"+testmysql.Password+"'", "grant all on *.* to copier")
	source, target := testmysql.Start(t, testmysql.WithBinlog(), account), testmysql.Start(t, testmysql.WithBinlog(), account)
	rnd := testseed.Rand(t)
	for _, way := range []struct{ name, first, second string }{{"upgrade", old, binary}, {"rollback", binary, old}} {
		t.Run(way.name, func(t *testing.T) {
			f := newFollowRound(t, source, target, copyKinds[0])
			f.kept = keepEvidence(t, source, target)
			args := append(copyArgs(source, target, f.kind.flags...), "--follow", "--chunk-bytes", "64KiB")
			f.write(t)
			c, events := startCopyOf(t, way.first, args, f.kept.run(args))
			awaitEvents(t, c, events, 1+rnd.IntN(30))
			c.end(syscall.SIGKILL)
			c, events = startCopyOf(t, way.second, args, io.Discard)
			awaitEvents(t, c, events, 1+rnd.IntN(30))
			c.end(syscall.SIGTERM)
			if text := c.text(); way.second == old && c.cmd.ProcessState.ExitCode() == 1 && !strings.Contains(text, "version") {
				t.Errorf("the older binary does not name the version: %s", text)
			}
			f.rest()
			f.finish(t, args)
		})
	}
}

// TestRelease builds a release twice, from clones in different directories: their bytes are the same, each binary runs, and the sums are right.
func TestRelease(t *testing.T) {
	const version = "v99.0.0"
	var sums []string
	var out string
	for range 2 {
		dir := cloneAt(t, "HEAD")
		changes := filepath.Join(dir, "CHANGELOG.md")
		text, err := os.ReadFile(changes)
		must(t, err)
		must(t, os.WriteFile(changes, append([]byte("## [99.0.0]\n\n"), text...), 0o600))
		mustRun(t, "", "git", "-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false", "commit", "--quiet", "--all",
			"--message", "a release", "--date", "2026-01-01T00:00:00Z")
		mustRun(t, "", "env", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z", "git", "-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false",
			"commit", "--quiet", "--amend", "--no-edit")
		out = filepath.Join(t.TempDir(), "release")
		build := exec.CommandContext(t.Context(), filepath.Join(dir, ".ci/release"), version, out) // minutes, with nothing cached
		if text, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v:\n%s", err, text)
		}
		mustRun(t, "", "sh", "-c", `cd "$1" && sha256sum --check --strict --quiet SHA256SUMS`, "sh", out)
		text, err = os.ReadFile(filepath.Join(out, "SHA256SUMS"))
		must(t, err)
		if n := strings.Count(string(text), "\n"); n != 19 {
			t.Errorf("%d files, want 4 archives, 8 packages, an image and 6 bills of materials:\n%s", n, text)
		}
		sums = append(sums, string(text))
		mustRun(t, "", "tar", "-C", out, "-xzf", filepath.Join(out, "tare-"+version+"-linux-amd64.tar.gz"))
		if said := mustRun(t, "", filepath.Join(out, "tare-"+version+"-linux-amd64", "tare"), "version"); !strings.Contains(said, version) {
			t.Errorf("the binary of the archive is version %q", said)
		}
	}
	if sums[0] != sums[1] {
		t.Errorf("two builds of one commit differ:\n%s\n%s", sums[0], sums[1])
	}
	signed(t, out)
}

// signed signs a release with a new key, verifies it as a user does, and changes it: it is neither verified nor signed again.
func signed(t *testing.T, release string) {
	keys := t.TempDir()
	secret, public := filepath.Join(keys, "key"), filepath.Join(keys, "key.pub")
	mustRun(t, "", "minisign", "-G", "-W", "-s", secret, "-p", public)
	mustRun(t, "", "../.ci/sign", secret, release)
	sums := filepath.Join(release, "SHA256SUMS")
	verify := func() error {
		return exec.CommandContext(t.Context(), "minisign", "-V", "-p", public, "-m", sums).Run()
	}
	must(t, verify())
	text, err := os.ReadFile(sums)
	must(t, err)
	must(t, os.WriteFile(sums, append([]byte("0"), text[1:]...), 0o600))
	if err := verify(); err == nil {
		t.Error("changed checksums have a valid signature")
	}
	if err := exec.CommandContext(t.Context(), "../.ci/sign", secret, release).Run(); err == nil {
		t.Error("wrong checksums were signed")
	}
}
