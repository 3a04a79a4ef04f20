import{a as p,c as m,ma as o}from"./chunk-O62DLBAE.js";m(p(o,null),document.getElementById("app"));
