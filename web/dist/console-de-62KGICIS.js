import{a as p,c as m,va as o}from"./chunk-ZZSSUHU6.js";m(p(o,null),document.getElementById("app"));
