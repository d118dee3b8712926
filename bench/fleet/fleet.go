package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/taredb/tare/bench/programs"
	"github.com/taredb/tare/internal/child"
)

const readyLimit = 10 * time.Minute

// A kind is a program that serves the blocks.
type kind int

const (
	tareStore kind = iota
	memcachedStore
	thanosStore
)

// A fleet has instances over one bucket, and a querier over them.
type fleet struct {
	kind      kind
	dir       string
	grpc      []string // addresses
	http      []string
	instances []*child.Child
	started   []time.Duration // until ready
	memcached string          // address

	others  []*child.Child // memcached and the querier, in the order of their start
	querier string         // URL
}

// startFleet starts the instances one after the other, then the querier.
func startFleet(ctx context.Context, o *options, k kind, instances int, dir string) (f *fleet, err error) {
	f = &fleet{kind: k, dir: dir, instances: make([]*child.Child, instances), started: make([]time.Duration, instances)}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.stop())
		}
	}()
	if k == memcachedStore {
		if err := f.startMemcached(ctx, o); err != nil {
			return f, err
		}
	}
	for range instances {
		for _, list := range []*[]string{&f.grpc, &f.http} {
			addr, err := programs.FreeAddress()
			if err != nil {
				return f, err
			}
			*list = append(*list, addr)
		}
	}
	for i := range instances {
		if err := f.start(ctx, o, i); err != nil {
			return f, err
		}
	}
	return f, f.startQuerier(ctx, o)
}

func (f *fleet) startMemcached(ctx context.Context, o *options) (err error) {
	if f.memcached, err = programs.FreeAddress(); err != nil {
		return err
	}
	_, port, _ := strings.Cut(f.memcached, ":")
	c, err := programs.Serve(ctx, "memcached", f.memcached, o.memcached, "-u", "nobody", "-l", "127.0.0.1", "-p", port, "-m", "1024")
	if err == nil {
		f.others = append(f.others, c)
	}
	return err
}

// start starts instance i and waits until it is ready.
func (f *fleet) start(ctx context.Context, o *options, i int) error {
	began := time.Now()
	name := fmt.Sprintf("instance %d", i+1)
	c, err := child.Start(name, f.command(o, i), nil)
	if err != nil {
		return err
	}
	f.instances[i] = c
	err = awaitOK(ctx, c, "http://"+f.http[i]+"/-/ready")
	f.started[i] = time.Since(began)
	return err
}

// command returns the command of instance i, which serves its part of the blocks.
func (f *fleet) command(o *options, i int) *exec.Cmd {
	n, data := len(f.instances), filepath.Join(f.dir, strconv.Itoa(i))
	if f.kind == thanosStore {
		args := []string{
			"store", "--http-address", f.http[i], "--grpc-address", f.grpc[i], "--data-dir", data,
			"--objstore.config=" + fmt.Sprintf("type: FILESYSTEM\nconfig:\n  directory: %q\n", o.bucket),
		}
		if n > 1 {
			args = append(args, "--selector.relabel-config="+fmt.Sprintf(
				"- {action: hashmod, source_labels: [__block_id], target_label: shard, modulus: %d}\n"+
					"- {action: keep, source_labels: [shard], regex: %d}\n", n, i))
		}
		return exec.Command(o.thanos, args...)
	}
	args := []string{"store", "--bucket", "file://" + o.bucket, "--http", f.http[i], "--grpc", f.grpc[i], "--data-dir", data}
	if n > 1 {
		args = append(args, "--shard", fmt.Sprintf("%d/%d", i+1, n))
	}
	if f.kind == memcachedStore {
		args = append(args, "--cache-memcached", f.memcached)
	}
	return exec.Command(o.tare, args...)
}

// startQuerier starts a querier that queries all instances, even unreachable ones, and waits until it knows them.
func (f *fleet) startQuerier(ctx context.Context, o *options) error {
	var addrs [2]string
	for i := range addrs {
		addr, err := programs.FreeAddress()
		if err != nil {
			return err
		}
		addrs[i] = addr
	}
	args := []string{"query", "--http-address", addrs[0], "--grpc-address", addrs[1], "--store.response-timeout", "60s"}
	for _, addr := range f.grpc {
		args = append(args, "--endpoint-strict", addr)
	}
	c, err := child.Start("the querier", exec.Command(o.thanos, args...), nil)
	if err != nil {
		return err
	}
	f.others = append(f.others, c)
	f.querier = "http://" + addrs[0]
	return c.Await(ctx, readyLimit, func() (bool, error) {
		text, err := get(ctx, f.querier+"/api/v1/stores")
		known := strings.Count(text, `"lastError":null`) >= len(f.grpc) && !strings.Contains(text, `"minTime":-9223372036854775808`)
		return err == nil && known, nil
	})
}

func (f *fleet) stop() error {
	var errs []error
	for _, c := range append(f.others, f.instances...) {
		if c != nil {
			errs = append(errs, c.Stop(programs.StopGrace))
		}
	}
	return errors.Join(errs...)
}

func awaitOK(ctx context.Context, c *child.Child, url string) error {
	return c.Await(ctx, readyLimit, func() (bool, error) {
		_, err := get(ctx, url)
		return err == nil, nil
	})
}

// get returns the body of a response, which must have the status 200.
func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	var text strings.Builder
	if _, err := bufio.NewReader(reply.Body).WriteTo(&text); err != nil {
		return "", err
	}
	if reply.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", url, reply.Status)
	}
	return text.String(), nil
}

// metrics returns bytes read by all instances, by origin.
func (f *fleet) metrics(ctx context.Context) (map[string]float64, error) {
	sums := make(map[string]float64)
	for _, addr := range f.http {
		text, err := get(ctx, "http://"+addr+"/metrics")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
			name := origin(series)
			if !ok || name == "" {
				continue
			}
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", line, err)
			}
			sums[name] += v
		}
	}
	return sums, nil
}

// origins are the columns of the report for bytes read.
var origins = [...]string{"fetched", "cached", "memcached"}

// origin returns the column of the report that a series of /metrics belongs to, "" for none.
func origin(series string) string {
	name, labels, _ := strings.Cut(series, "{")
	switch name {
	case "tare_store_read_bytes_total": // of its kinds, the others are of local index headers
		label := func(name string, values ...string) string {
			for _, v := range values {
				if strings.Contains(labels, name+`="`+v+`"`) {
					return v
				}
			}
			return ""
		}
		if label("kind", "postings", "series", "chunks") != "" {
			return label("origin", origins[:]...)
		}
	case "thanos_bucket_store_series_data_size_fetched_bytes_sum":
		return "fetched"
	}
	return ""
}

// memory returns a field of /proc/PID/status of each instance, in MiB.
func (f *fleet) memory(field string) (mib []float64, err error) {
	for _, c := range f.instances {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.PID()))
		if err != nil {
			return nil, err
		}
		_, rest, found := strings.Cut(string(text), field+":")
		kib, err := strconv.ParseFloat(strings.Fields(rest + " ?")[0], 64)
		if !found || err != nil {
			return nil, fmt.Errorf("%s of process %d: %w", field, c.PID(), err)
		}
		mib = append(mib, kib/1024)
	}
	return mib, nil
}

// kill kills instance i.
func (f *fleet) kill(i int) error {
	if err := syscall.Kill(f.instances[i].PID(), syscall.SIGKILL); err != nil {
		return err
	}
	<-f.instances[i].Done
	return nil
}
