mod cassettes;
mod conversations;
mod requests;
mod streams;
