#!/usr/bin/perl
# Writes a batch.safetensors of small integers:   batch.pl FILE B T NAME=v,v,...      B values are one a row
# A batch can be written that no other tool would: most of them mean nothing.
use strict;
use warnings;

my ($path, $B, $T, @members) = @ARGV;
my (@entries, $data);
$data = '';
for my $member (sort @members) {
    my ($name, $list) = split /=/, $member;
    my @values = split /,/, $list;
    my $bytes = pack 'q<*', @values;
    my $shape = @values == $B ? $B : "$B,$T";
    push @entries, sprintf '"%s":{"dtype":"I64","shape":[%s],"data_offsets":[%d,%d]}', $name, $shape, length $data, length($data) + length $bytes;
    $data .= $bytes;
}
my $header = '{' . join(',', @entries) . '}';
$header .= ' ' x (-length($header) % 8);
open my $file, '>:raw', $path or die "$path: $!\n";
print $file pack('Q<', length $header), $header, $data;
close $file or die "$path: $!\n";
