module seqsvr.example/clients/go

go 1.24
