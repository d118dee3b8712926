package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/taredb/tare/bench/programs"
	"github.com/taredb/tare/internal/child"
	"github.com/taredb/tare/internal/store/storepb"
	"github.com/taredb/tare/internal/vtcodec"
)

const readyLimit = 10 * time.Minute

// A place is where the blocks are.
type place struct {
	name string
	dir  string
	s3   *s3Server // nil: in dir
}

// A store is a running store.
type store struct {
	http, grpc string // addresses
	process    *child.Child
	conn       *grpc.ClientConn
	client     storepb.StoreClient
}

// command returns the command of a store.
func command(o *options, thanos bool, p *place, http, grpc, data string) *exec.Cmd {
	if thanos {
		config := fmt.Sprintf("type: FILESYSTEM\nconfig:\n  directory: %q\n", p.dir)
		if p.s3 != nil {
			config = fmt.Sprintf("type: S3\nconfig:\n  bucket: %s\n  endpoint: %s\n  insecure: true\n  access_key: %s\n  secret_key: %s\n  region: test\n  bucket_lookup_type: path\n",
				bucketName, p.s3.addr, accessKey, secretKey)
		}
		return exec.Command(o.thanos, "store", "--http-address", http, "--grpc-address", grpc, "--data-dir", data, "--objstore.config="+config)
	}
	bucket := "file://" + p.dir
	if p.s3 != nil {
		bucket = "s3://" + bucketName + "?region=test&path_style=true&insecure=true&endpoint=" + p.s3.addr
	}
	cmd := exec.Command(o.tare, "store", "--bucket", bucket, "--http", http, "--grpc", grpc, "--data-dir", data)
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+accessKey, "AWS_SECRET_ACCESS_KEY="+secretKey)
	return cmd
}

// startStore starts a store and waits until it is ready.
func startStore(ctx context.Context, o *options, thanos bool, p *place, data string) (_ *store, err error) {
	s := &store{}
	for _, addr := range []*string{&s.http, &s.grpc} {
		if *addr, err = programs.FreeAddress(); err != nil {
			return nil, err
		}
	}
	name := "tare store"
	if thanos {
		name = "thanos store"
	}
	if s.process, err = child.Start(name, command(o, thanos, p, s.http, s.grpc, data), nil); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	err = s.process.Await(ctx, readyLimit, func() (bool, error) {
		_, err := s.get(ctx, "/-/ready")
		return err == nil, nil
	})
	if err != nil {
		return nil, err
	}
	s.conn, err = grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(vtcodec.Codec{}), grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	if err != nil {
		return nil, err
	}
	s.client = storepb.NewStoreClient(s.conn)
	return s, nil
}

func (s *store) stop() error {
	var err error
	if s.conn != nil {
		err = s.conn.Close()
	}
	return errors.Join(err, s.process.Stop(programs.StopGrace))
}

// get returns the body of a response of the HTTP API, which must have the status 200.
func (s *store) get(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.http+path, http.NoBody)
	if err != nil {
		return "", err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err == nil && reply.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", path, reply.Status)
	}
	return string(text), err
}

// metric returns a metric of Tare's store.
func (s *store) metric(ctx context.Context, series string) (float64, error) {
	text, err := s.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut("\n"+text, "\n"+series+" ")
	value, _, _ := strings.Cut(rest, "\n")
	if !found {
		return 0, fmt.Errorf("/metrics lacks %s", series)
	}
	return strconv.ParseFloat(value, 64)
}

// settled waits until Tare's store loads no more index headers. It returns the number of those loaded.
func (s *store) settled(ctx context.Context) (float64, error) {
	const (
		every = 100 * time.Millisecond
		polls = 10 // without a change
	)
	last, same := -1.0, 0
	for same < polls {
		n, err := s.metric(ctx, "tare_store_index_headers_loaded")
		if err != nil {
			return 0, err
		}
		if same++; n != last {
			last, same = n, 0
		}
		select {
		case <-time.After(every):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return last, nil
}

// resident returns the resident memory of the process, in MiB.
func (s *store) resident() (float64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.process.PID()), "status"))
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(text), "VmRSS:")
	kib, err := strconv.ParseFloat(strings.Fields(rest + " ?")[0], 64)
	if !found || err != nil {
		return 0, fmt.Errorf("VmRSS of process %d: %w", s.process.PID(), err)
	}
	return kib / 1024, nil
}

// query requests one series of all blocks. It returns its time, and the number and the bytes of the chunks.
func (s *store) query(ctx context.Context) (took time.Duration, chunks, bytes int, err error) {
	began := time.Now()
	stream, err := s.client.Series(ctx, &storepb.SeriesRequest{
		MinTime: math.MinInt64, MaxTime: math.MaxInt64,
		Matchers: []*storepb.LabelMatcher{{Type: storepb.LabelMatcher_RE, Name: "i", Value: "00.+"}},
	})
	for err == nil {
		var r *storepb.SeriesResponse
		if r, err = stream.Recv(); err != nil {
			break
		}
		if w := r.GetWarning(); w != "" {
			return 0, 0, 0, fmt.Errorf("warning: %s", w)
		}
		all := append([]*storepb.Series{r.GetSeries()}, r.GetBatch().GetSeries()...)
		for _, series := range all {
			for _, c := range series.GetChunks() {
				chunks, bytes = chunks+1, bytes+len(c.GetRaw().GetData())
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		return 0, 0, 0, err
	}
	return time.Since(began), chunks, bytes, nil
}
