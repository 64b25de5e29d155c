// SPDX-License-Identifier: Apache-2.0
// A Rust program with an allocation whose place the tests know.
use std::collections::HashMap;

#[inline(never)]
fn make_lines(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("line number {} {}", i, "x".repeat(i % 50))).collect()
}

mod inner {
    #[inline(never)]
    pub fn keep_table(rows: usize) -> Vec<Box<[u8; 4096]>> {
        (0..rows).map(|i| Box::new([i as u8; 4096])).collect()
    }
}

fn main() {
    let lines = make_lines(5000);
    let table = inner::keep_table(1000);
    let mut index = HashMap::new();
    for (number, line) in lines.iter().enumerate() {
        index.insert(line.clone(), number);
    }
    let handles: Vec<_> = (0..4)
        .map(|n| std::thread::spawn(move || make_lines(1000 + n).len()))
        .collect();
    let sum: usize = handles.into_iter().map(|h| h.join().unwrap()).sum();
    println!("{} {} {} {}", lines.len(), table.len(), index.len(), sum);
    let caught = std::panic::catch_unwind(|| {
        let v = make_lines(10);
        v[20].len()
    });
    println!("{}", caught.is_err());
    std::process::exit(index.len() as i32 % 100);
}
