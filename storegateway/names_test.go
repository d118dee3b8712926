package storegateway_test

// Names of a block's files.
const (
	metaName       = "meta.json"
	indexName      = "index"
	tombstonesName = "tombstones"
)

// tenantHeader names the tenant of a request.
const tenantHeader = "X-Scope-OrgID"

// discardLog is a log of go-kit that writes nothing.
type discardLog struct{}

func (discardLog) Log(...any) error { return nil }
