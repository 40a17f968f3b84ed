module seqsvr.example/clients/go/examples/inbox

go 1.24

require (
	github.com/mattn/go-sqlite3 v1.14.16
	seqsvr.example/clients/go v0.1.0
)

replace seqsvr.example/clients/go => ../..
