package storegateway_test

// Names of a block's files.
const (
	metaName       = "meta.json"
	indexName      = "index"
	tombstonesName = "tombstones"
)

// tenantHeader is the HTTP header with the tenant of a request.
const tenantHeader = "X-Scope-OrgID"

// discardLog is a go-kit logger that discards everything.
type discardLog struct{}

func (discardLog) Log(...any) error { return nil }
