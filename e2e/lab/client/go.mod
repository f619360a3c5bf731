module lab/client

go 1.26
