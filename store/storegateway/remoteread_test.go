package storegateway_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
)

// remoteRead returns the body of a remote read.
func remoteRead(t *testing.T, base string, form prompb.ReadRequest_ResponseType, queries ...*prompb.Query) []byte {
	t.Helper()
	res := remoteReadResponse(t, base, form, queries...)
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// remoteReadResponse returns the complete response to a remote read.
func remoteReadResponse(t *testing.T, base string, form prompb.ReadRequest_ResponseType, queries ...*prompb.Query) *http.Response {
	t.Helper()
	b, err := (&prompb.ReadRequest{Queries: queries, AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{form}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Post(base+"/api/v1/read", "application/x-protobuf", bytes.NewReader(snappy.Encode(nil, b)))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("remote read: %s: %.300s, %v", res.Status, body, err)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	return res
}
