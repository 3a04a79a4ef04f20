import{La as o,a as p,c as m}from"./chunk-IAVQKUEJ.js";m(p(o,null),document.getElementById("app"));
